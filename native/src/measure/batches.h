// Where a step's tokens come from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace whatfits::native {

/// A token and what is to be predicted after it, in one int64 (see KernelSet).
constexpr std::int64_t token_pair(std::uint32_t token, std::uint32_t target) {
  return static_cast<std::int64_t>(std::uint64_t{target} << 32 | token);
}

class Batches {
 public:
  virtual ~Batches() = default;
  /// Fills the ids of micro-batch number `index` (from 0, counted over the whole run), `sequences` rows of equal length.
  virtual void fill(std::span<std::int64_t> ids, std::int64_t sequences, std::uint64_t index) = 0;
};

/// What the measured script does: random tokens, each its own target.
class RandomBatches final : public Batches {
 public:
  RandomBatches(std::int64_t vocab, std::uint64_t seed) : vocab_(vocab), seed_(seed) {}
  void fill(std::span<std::int64_t> ids, std::int64_t sequences, std::uint64_t index) override;

 private:
  std::int64_t vocab_;
  std::uint64_t seed_;
};

/// Stretches of a text at random places, each token's target the next one.
class FileBatches final : public Batches {
 public:
  /// Reads a GPT-2 token file (magic 20240520, version 1, uint16 tokens; or the same without header when `path` ends in ".bin" and the
  /// size is even), or any other file as bytes. Throws std::runtime_error with one line for a person when it cannot be read, is shorter
  /// than `row` + 1 tokens, or has a token that is not below `vocab`.
  FileBatches(const std::string& path, std::int64_t vocab, std::int64_t row, std::uint64_t seed);
  void fill(std::span<std::int64_t> ids, std::int64_t sequences, std::uint64_t index) override;
  std::size_t tokens() const { return tokens_.size(); }

 private:
  std::vector<std::uint16_t> tokens_;
  std::uint64_t seed_;
};

/// A number from a counter: the same on every machine, in any order (splitmix64's finaliser over both).
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed * 0x9E3779B97F4A7C15U + counter + 0x9E3779B97F4A7C15U;
  for (int i = 0; i < 2; ++i) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
  }
  return z;
}

}  // namespace whatfits::native
