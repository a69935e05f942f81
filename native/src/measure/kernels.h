// What the executor asks of a device: kernels over views of memory, and bytes in and out. The CPU's is in ../cpu; a card's has the
// same shape.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "whatfits/bytes.h"
#include "whatfits/program.h"

namespace whatfits::native {

/// An operand: where it is and how it lies there. Strides in elements; `data` is its first element.
struct View {
  void* data = nullptr;
  DType dtype = DType::float32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{};
  std::array<std::int64_t, kMaxRank> strides{};
  Bytes bytes = 0;  ///< of the storage from `data` on

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= sizes[static_cast<std::size_t>(i)];
    return n;
  }
  /// Size and stride of a dimension; negative ones count from the last.
  std::int64_t size(int i) const { return sizes[static_cast<std::size_t>(i < 0 ? rank + i : i)]; }
  std::int64_t stride(int i) const { return strides[static_cast<std::size_t>(i < 0 ? rank + i : i)]; }
};

/// What an optimizer is told besides its tensors. None of it decides memory, so none of it is in the Program.
/// Defaults are PyTorch's, but for the learning rate: 0 stands for 3e-4 with AdamW and 1e-2 with SGD.
struct Hyperparameters {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  ///< AdamW's; SGD has none
  double momentum = 0.9;       ///< of sgd_momentum
};

/// One operator with its operands, in the order of OpInfo.
struct OpCall {
  OpKind kind = OpKind::none;
  std::uint8_t flags = 0;
  double scalar = 0;
  std::span<const View> inputs{};
  std::span<const View> outputs{};
  std::span<const View> scratch{};
  const Hyperparameters* hyper = nullptr;  ///< optimizers
  std::int64_t step = 0;                   ///< optimizers: of the bias correction, from 1
  View workspace{};                        ///< products: the matrix library's own, where the program has one
};

/// A device's arithmetic. Work goes in the order of the calls, as on one stream; read() waits for it.
///
/// `randint` and `randn` never come here: the executor makes the numbers on the host, the same for every device, and write()s them.
/// An int64 of token ids holds two numbers: the token in its low 32 bits, which `embedding` looks up, and the token to be predicted in
/// its high 32 bits, which `nll_loss` looks at. So a step has ids and targets in the one tensor that the script allocates.
class KernelSet {
 public:
  virtual ~KernelSet() = default;
  virtual void run(const OpCall& call) = 0;
  virtual void read(void* host, const void* device, Bytes bytes) = 0;
  virtual void write(void* device, const void* host, Bytes bytes) = 0;
  /// Fills with bytes that are NaN as float32, bfloat16, float16 and float64, and no token as int64.
  virtual void poison(void* device, Bytes bytes) = 0;
  virtual void synchronize() = 0;
  /// "oneDNN 2.6.3, x86-64-v4": for the fixture.
  virtual std::string describe() const = 0;
};

}  // namespace whatfits::native
