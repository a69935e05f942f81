// Files and streams. Everything here throws Failure with one line: the name and the system's reason.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace whatfits::cli {

/// The whole file, or standard input for "-". At most `most` bytes.
std::string read_text(const std::string& path, std::size_t most);

/// The file is complete or not there: written under another name in the same folder, then renamed. A device or pipe is written
/// straight. "-" is standard output.
void write_file(const std::string& path, std::string_view text);

/// All of it, to the end. A reader that went away is a failure as a full disk is.
void write_all(int descriptor, std::string_view text, const std::string& name);

}  // namespace whatfits::cli
