// A source of memory that really is somewhere.
#pragma once

#include "allocator/memory_source.h"

namespace whatfits::native {

class NativeSource : public MemorySource {
 public:
  /// Where the allocator's `address` is for kernels. On a card they are the same.
  virtual void* pointer(Address address) const = 0;
};

}  // namespace whatfits::native
