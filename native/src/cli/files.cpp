#include "cli/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cli/failure.h"
#include "text/text.h"

namespace whatfits::cli {
namespace {

Failure system_failure(const std::string& name, const char* what) {
  const int error = errno;
  return Failure(name + ": " + what + ": " + std::strerror(error));
}

// Closes on every way out.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ > STDERR_FILENO) ::close(number_);
  }
  int number() const { return number_; }
  // Some file systems report a full disk only here.
  bool close() {
    const int number = number_;
    number_ = -1;
    return ::close(number) == 0;
  }

 private:
  int number_;
};

}  // namespace

std::string read_text(const std::string& path, std::size_t most) {
  const bool input = path == "-";
  const std::string name = input ? "standard input" : printable(path);
  const Descriptor file(input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) throw system_failure(name, "cannot be read");
  std::string text;
  char buffer[1 << 14];
  while (true) {
    const ssize_t got = ::read(file.number(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_failure(name, "cannot be read");
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > most) throw Failure(name + ": is larger than " + std::to_string(most) + " bytes, the most that is read");
  }
}

void write_all(int descriptor, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t done = ::write(descriptor, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw system_failure(name, "cannot be written");
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

void write_file(const std::string& path, std::string_view text) {
  if (path == "-") return write_all(STDOUT_FILENO, text, "standard output");
  const std::string name = printable(path);
  struct stat there{};
  const bool exists = ::stat(path.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode)) {  // /dev/stdout, a pipe: nothing to rename onto. A folder fails here with its reason.
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.number() < 0) throw system_failure(name, "cannot be written");
    return write_all(file.number(), text, name);
  }

  // Through a symbolic link the file that it names is replaced, not the link.
  std::string target = path;
  if (exists) {
    if (const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free); real) target = real.get();
  }
  std::string draft = target + ".XXXXXX";
  Descriptor file(::mkstemp(draft.data()));
  if (file.number() < 0) throw system_failure(name, "cannot be written");
  try {
    write_all(file.number(), text, name);
    // mkstemp makes private files; a picture gets the rights of any new file, or those of the file it replaces.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(file.number(), exists ? there.st_mode & 0777 : 0666 & ~mask) != 0 || !file.close() ||
        std::rename(draft.c_str(), target.c_str()) != 0) {
      throw system_failure(name, "cannot be written");
    }
  } catch (const Failure&) {
    ::unlink(draft.c_str());
    throw;
  }
}

}  // namespace whatfits::cli
