#include "measure/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace whatfits::native {

namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw std::runtime_error(what + ": \"" + path + "\": " + std::strerror(error));
}

/// A descriptor that closes itself.
struct File {
  int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

void write_all(const std::string& what, const std::string& path, int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(what, path, n == 0 ? ENOSPC : errno);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
}

void sync(const std::string& what, const std::string& path, int fd) {
  if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS) fail(what, path, errno);  // a device has nothing to sync
}

bool is_special(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

std::string temporary(const std::string& path) { return path + "." + std::to_string(getpid()) + ".tmp"; }

}  // namespace

void write_whole(const std::string& what, const std::string& path, std::string_view content) {
  const bool special = is_special(path);
  const std::string name = special ? path : temporary(path);
  try {
    const File file{open(name.c_str(), special ? O_WRONLY : O_WRONLY | O_CREAT | O_TRUNC, 0644)};
    if (file.fd < 0) fail(what, path, errno);
    write_all(what, path, file.fd, content);
    sync(what, path, file.fd);
  } catch (...) {
    if (!special) unlink(name.c_str());
    throw;
  }
  if (!special && rename(name.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(name.c_str());
    fail(what, path, error);
  }
}

void append_line(const std::string& what, const std::string& path, std::string_view line) {
  const File file{open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644)};
  if (file.fd < 0) fail(what, path, errno);
  write_all(what, path, file.fd, std::string(line) + "\n");
  sync(what, path, file.fd);
}

void check_writable(const std::string& what, const std::string& path) {
  const bool special = is_special(path);
  const std::string name = special ? path : temporary(path);
  {
    const File file{open(name.c_str(), special ? O_WRONLY : O_WRONLY | O_CREAT, 0644)};
    if (file.fd < 0) fail(what, path, errno);
  }
  if (!special) unlink(name.c_str());
}

void make_folder(const std::string& what, const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) fail(what, path, errno);
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) fail(what, path, errno);
  if (!S_ISDIR(info.st_mode)) fail(what, path, ENOTDIR);
}

std::string read_whole(const std::string& what, const std::string& path) {
  const File file{open(path.c_str(), O_RDONLY)};
  if (file.fd < 0) fail(what, path, errno);
  std::string content;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t n = read(file.fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(what, path, errno);
    if (n == 0) return content;
    content.append(chunk, static_cast<std::size_t>(n));
  }
}

}  // namespace whatfits::native
