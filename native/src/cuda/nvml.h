// The driver's own view of a card, by NVML, which is loaded when it is there and missed when it is not.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "whatfits/bytes.h"

namespace whatfits::native::cuda {

class Nvml {
 public:
  virtual ~Nvml() = default;
  /// Of the whole card, whoever uses it; needs no context.
  virtual std::optional<Bytes> used() = 0;
  /// Programs that compute on the card, this one included once it has a context.
  virtual std::optional<int> processes() = 0;
  virtual std::optional<std::string> driver() = 0;
};

/// For the card at that PCI address; null where NVML cannot be loaded or does not know it.
std::unique_ptr<Nvml> open_nvml(const std::string& pci);

}  // namespace whatfits::native::cuda
