#include "measure/batches.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace whatfits::native {

namespace {

constexpr std::uint32_t kGpt2Magic = 20240520;
constexpr std::size_t kGpt2Header = 256 * sizeof(std::int32_t);

/// Below `n`, without a bias that anybody could see.
std::uint64_t below(std::uint64_t bits, std::uint64_t n) { return (bits >> 32) * n >> 32; }

[[noreturn]] void fail(const std::string& path, const std::string& what) { throw std::runtime_error("--data: \"" + path + "\": " + what); }

}  // namespace

void RandomBatches::fill(std::span<std::int64_t> ids, std::int64_t /*sequences*/, std::uint64_t index) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto token =
        static_cast<std::uint32_t>(below(random_bits(seed_ ^ 0xDA7A, index * ids.size() + i), static_cast<std::uint64_t>(vocab_)));
    ids[i] = token_pair(token, token);
  }
}

FileBatches::FileBatches(const std::string& path, std::int64_t vocab, std::int64_t row, std::uint64_t seed) : seed_(seed) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "cannot be opened");
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (file.bad()) fail(path, "cannot be read");
  const auto word = [&](std::size_t i) {
    std::uint32_t w = 0;
    std::memcpy(&w, bytes.data() + 4 * i, sizeof w);
    return w;
  };
  const bool named = path.size() > 4 && path.compare(path.size() - 4, 4, ".bin") == 0;
  const bool header = bytes.size() >= kGpt2Header && word(0) == kGpt2Magic;
  if (header || named) {
    const std::size_t begin = header ? kGpt2Header : 0;
    if (header && word(1) != 1) fail(path, "is a token file of version " + std::to_string(word(1)) + "; 1 is what can be read");
    if ((bytes.size() - begin) % 2 != 0) fail(path, "ends in half a token");
    tokens_.resize((bytes.size() - begin) / 2);
    std::memcpy(tokens_.data(), bytes.data() + begin, bytes.size() - begin);
    if (header && tokens_.size() != word(2))
      fail(path, "says " + std::to_string(word(2)) + " tokens and has " + std::to_string(tokens_.size()));
  } else {
    tokens_.assign(reinterpret_cast<const unsigned char*>(bytes.data()),
                   reinterpret_cast<const unsigned char*>(bytes.data()) + bytes.size());
  }
  if (tokens_.size() < static_cast<std::size_t>(row) + 1)
    fail(path, "has " + std::to_string(tokens_.size()) + " tokens; one sequence needs " + std::to_string(row + 1));
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i] >= vocab)
      fail(path,
           "token " + std::to_string(tokens_[i]) + " at place " + std::to_string(i) + " is not below vocab_size " + std::to_string(vocab));
  }
}

void FileBatches::fill(std::span<std::int64_t> ids, std::int64_t sequences, std::uint64_t index) {
  const std::size_t row = ids.size() / static_cast<std::size_t>(sequences);
  for (std::size_t b = 0; b < static_cast<std::size_t>(sequences); ++b) {
    const std::uint64_t bits = random_bits(seed_ ^ 0xDA7A, index * static_cast<std::uint64_t>(sequences) + b);
    const std::size_t at = static_cast<std::size_t>(below(bits, tokens_.size() - row));
    for (std::size_t t = 0; t < row; ++t) ids[b * row + t] = token_pair(tokens_[at + t], tokens_[at + t + 1]);
  }
}

}  // namespace whatfits::native
