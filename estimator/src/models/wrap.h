// The wrapper that a script puts around its model to train on several cards.
#pragma once

#include <memory>

#include "torch/torch.h"
#include "torch/wrapper.h"
#include "whatfits/config.h"

namespace whatfits {

/// The wrapper that `config.parallel` asks for, or null where one card trains alone. Made before the model.
std::unique_ptr<torch::Wrapper> make_wrapper(torch::Torch& torch, const Config& config);

/// The model as one rank has it: with `parallel.tensor` its share of the heads and of the MLP's width. Tables of the vocabulary are cut
/// where they are made.
Config of_one_rank(const Config& config);

/// Whether the script surrounds forward and loss with autocast. With FSDP its mixed-precision policy casts instead.
bool uses_autocast(const Config& config);

}  // namespace whatfits
