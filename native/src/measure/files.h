// Files that are either whole or not there.
#pragma once

#include <string>
#include <string_view>

namespace whatfits::native {

/// Writes beside `path`, syncs, and renames: after a crash `path` has its old content or all of the new. Something that is no regular
/// file (a device) is written to as it is. Throws std::runtime_error with one line for a person: `out: "PATH": No space left on device`.
void write_whole(const std::string& what, const std::string& path, std::string_view content);
/// Appends one line and syncs it. Throws likewise.
void append_line(const std::string& what, const std::string& path, std::string_view line);
/// Throws likewise if `path` could not be written now. Leaves nothing behind.
void check_writable(const std::string& what, const std::string& path);
/// Makes the folder if it is missing. Throws likewise.
void make_folder(const std::string& what, const std::string& path);
/// The whole file. Throws likewise.
std::string read_whole(const std::string& what, const std::string& path);

}  // namespace whatfits::native
