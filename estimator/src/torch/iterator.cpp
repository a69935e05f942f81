#include "torch/iterator.h"

namespace whatfits::torch {

namespace {

bool is_float(DType dtype) { return dtype != DType::int64 && dtype != DType::uint8 && dtype != DType::boolean; }

/// The operand's stride along dimension `dim` of a result of `shape`: 0 where it is repeated.
std::int64_t broadcast_stride(const Shape& shape, const Tensor& operand, int dim) {
  const int own = dim - (shape.rank - operand.rank());
  if (own < 0 || (operand.size(own).size == 1 && shape[dim].size != 1)) return 0;
  return operand.stride(own);
}

}  // namespace

Shape broadcast_shape(const Shape& a, const Shape& b) {
  const Shape& larger = a.rank >= b.rank ? a : b;
  const Shape& smaller = a.rank >= b.rank ? b : a;
  Shape shape = larger;
  for (int i = 1; i <= smaller.rank; ++i) {
    if (shape[-i].size == 1) shape[-i] = smaller[-i];
  }
  return shape;
}

Strides elementwise_strides(const Shape& shape, std::initializer_list<const Tensor*> operands) {
  bool packed = true;
  for (const Tensor* operand : operands) packed = packed && (operand->shape() == shape || operand->rank() == 0) && operand->is_contiguous();
  if (packed) return contiguous_strides(shape);

  // order[0] is the innermost dimension. Negative: `a` belongs further in than `b`.
  const auto compare = [&](int a, int b) {
    for (const Tensor* operand : operands) {
      const std::int64_t left = broadcast_stride(shape, *operand, a);
      const std::int64_t right = broadcast_stride(shape, *operand, b);
      if (left == 0 || right == 0) continue;
      if (left < right) return -1;
      if (left > right) return 1;
      if (shape[a].size > shape[b].size) return 1;
    }
    return 0;
  };
  std::array<int, kMaxRank> order{};
  const auto at = [&](int i) -> int& { return order[static_cast<std::size_t>(i)]; };
  for (int i = 0; i < shape.rank; ++i) at(i) = shape.rank - 1 - i;
  for (int i = 1; i < shape.rank; ++i) {
    int moving = i;
    for (int k = i - 1; k >= 0; --k) {
      const int verdict = compare(at(k), at(moving));
      if (verdict > 0) {
        std::swap(at(k), at(moving));
        moving = k;
      } else if (verdict < 0) {
        break;
      }
    }
  }
  Strides strides{};
  std::int64_t next = 1;
  for (int i = 0; i < shape.rank; ++i) {
    strides[static_cast<std::size_t>(at(i))] = next;
    next *= shape[at(i)].size > 1 ? shape[at(i)].size : 1;
  }
  return strides;
}

DType promoted(const Tensor& a, const Tensor& b) {
  const DType left = a.dtype();
  const DType right = b.dtype();
  if (left == right) return left;
  if (is_float(left) != is_float(right)) return is_float(left) ? left : right;
  if (b.rank() == 0 && a.rank() != 0) return left;
  if (a.rank() == 0 && b.rank() != 0) return right;
  if (!is_float(left)) return left == DType::int64 || right == DType::int64 ? DType::int64 : DType::uint8;
  return left == DType::float64 || right == DType::float64 ? DType::float64 : DType::float32;
}

}  // namespace whatfits::torch
