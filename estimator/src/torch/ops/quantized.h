// Weights of four bits: bitsandbytes' NF4 with double quantisation, as QLoRA has them.
//
// Sources: bitsandbytes 0.49's functional.py (quantize_4bit, dequantize_4bit), nn/modules.py (Params4bit) and autograd/_functions.py
// (MatMul4Bit); from 0.50 on products of up to 1,536 rows may run in one kernel, without the unpacked copy.
#pragma once

#include "torch/ops.h"

namespace whatfits::torch {

/// A weight [out, in] of n elements, two in a byte, and its QuantState: a scale for every 64, itself a byte, and a scale for every 256
/// of these.
struct Weight4bit {
  Tensor packed;         ///< uint8 [(n + 1) / 2, 1]
  Tensor absmax;         ///< uint8 [n / 64], rounded up
  Tensor offset;         ///< float32: the mean of the scales
  Tensor code;           ///< float32 [16]
  Tensor nested_absmax;  ///< float32 [n / 64 / 256], rounded up
  Tensor nested_code;    ///< float32 [256]
  Shape shape;
  DType dtype = DType::float32;  ///< that it was packed from and is unpacked to
  explicit operator bool() const { return static_cast<bool>(packed); }
};

/// Packs `weight`. `dynamic_code`, the table for scales, is made by the first call and shared by all.
Weight4bit quantize_4bit(const Tensor& weight, const Shape& shape, Tensor& dynamic_code, std::string_view name);

/// x @ weight.T + bias over an unpacked copy, made again in backward; nothing is saved. `bias` may be undefined. `weight` must outlive
/// the graph.
Tensor matmul_4bit(const Tensor& x, const Weight4bit& weight, const Tensor& bias);

}  // namespace whatfits::torch
