// A step drawn as a picture that stands alone: no scripts, no fonts, no references.
#pragma once

#include <string>

#include "whatfits/estimate.h"

namespace whatfits::cli {

struct SvgText {
  std::string title;  ///< "Memory of training step 3: gpt2-from-scratch, batch 8 × 1,024 tokens"
  std::string peak;   ///< "step 3, backward, log_softmax_backward"
  std::string card;   ///< "NVIDIA A40"
};

/// Stacked areas by category, lines for reserved and for what is free on the card, phases, the peak with its name. Readable by
/// screen readers (title and description), in light and dark surroundings. One column of the picture keeps the highest event it
/// covers. The timeline has at least one row.
std::string svg_picture(const Timeline& timeline, Bytes free, const SvgText& text);

}  // namespace whatfits::cli
