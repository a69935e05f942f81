// The last answer, as JavaScript fetches it: what both modules export besides their questions is in answers.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "arrays.h"

// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define WF_EXPORT(name) extern "C" __attribute__((export_name(#name), used, visibility("default")))

namespace whatfits::wasm {

/// The text is the answer from now on; gives 1 if it is what was asked for, 0 if it is {"problems": [...]}.
std::uint32_t say(bool ok, std::string text);

/// The arrays are the answer from now on; they stay the caller's. Gives 1.
std::uint32_t show(const Arrays& arrays);
/// Of arrays that are going.
void show_none();

/// Events and indices come as doubles; a negative event is kAtPeak.
std::uint64_t event_of(double event);
std::size_t index_of(double value);

}  // namespace whatfits::wasm
