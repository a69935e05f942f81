// A predicted run in the format of torch.cuda.memory._dump_snapshot(), for the viewers people already have.
#pragma once

#include <functional>
#include <string_view>

#include "whatfits/config.h"

namespace whatfits::snapshot {

/// Pickle protocol 2. Where a stack of Python lines would be, a tensor has two lines: its operator, and its label with the phase, step and
/// block. Times are event numbers. `write` is given the bytes in pieces, in order.
void write_snapshot(const Config& config, const std::function<void(std::string_view)>& write);

}  // namespace whatfits::snapshot
