// What the JSON library asks of the C library, in little: the C library's own bring arithmetic of 128-bit floats with them, a
// sixth of the module.
#pragma once

namespace whatfits::wasm {

/// As strtod for JSON's numbers: the nearest double, ties to even; infinity when there is none. `end` as strtod's.
double parse_double(const char* text, char** end);

}  // namespace whatfits::wasm
