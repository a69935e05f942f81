// How long a step takes, beside how much memory: from what its operators compute and move, at the rates of the card. Nothing is
// replayed here, so the answer is a range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "whatfits/bytes.h"
#include "whatfits/config.h"
#include "whatfits/presets.h"
#include "whatfits/program.h"

namespace whatfits {

/// What eager PyTorch gets out of a card, at best and at worst. Assumed, in round figures; tests/pace_test.cpp lays the result
/// beside what others measured.
struct Share {
  int best, worst;
};
inline constexpr Share kMatrixPercent{80, 40};     ///< of the card's peak, by a step's matrix products and attention
inline constexpr Share kBandwidthPercent{90, 55};  ///< of the card's bandwidth, by the other operators
inline constexpr Share kLaunchMicroseconds{3, 8};  ///< of the host for each operator: small ones leave the card waiting

/// One optimizer step, all its micro-batches.
struct Pace {
  std::uint64_t tokens = 0;         ///< of one rank
  std::uint64_t ranks = 1;          ///< that train on tokens of their own; what follows is of one
  std::uint64_t flops = 0;          ///< of matrix products and attention, 2 for a multiply and an add; an optimizer's own do not count
  std::uint64_t flops_again = 0;    ///< of them for checkpoints' second forward
  std::uint64_t flops_by_rule = 0;  ///< (6·N + 12·L·C·T) · tokens, the field's rule of thumb
  Bytes bytes = 0;                  ///< that the other operators read and write
  Bytes optimizer_bytes = 0;        ///< of them by the optimizer
  std::uint64_t operators = 0;
  std::uint64_t fastest_us = 0;  ///< microseconds; both 0 if `unknown`
  std::uint64_t slowest_us = 0;
  std::string unknown;                 ///< why there is no time: the rate that nobody stated
  std::vector<MeasuredPace> measured;  ///< speeds that others published of models of nearly this size

  std::uint64_t tokens_of_all() const { return tokens * ranks; }
  /// Of all ranks.
  std::uint64_t tokens_per_second(std::uint64_t microseconds) const;
  /// This step's time a token as a share of the other's, by the middle of both ranges; 0 if one is not known.
  int percent_of(const Pace& other) const;
};

/// Multiply-adds of a product or of fused attention (half of its square, as under a causal mask); 0 for any other operator.
double multiply_adds(const Program& program, const OpInfo& op);

Pace pace(const Program& program, const Config& config);

/// The shares above in words.
std::string assumed_shares();

}  // namespace whatfits
