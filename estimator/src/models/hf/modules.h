// What Hugging Face's decoders are built of: parameters in registration order, linear layers (with or without an adapter), norms.
//
// Source of what each allocates: Transformers 5.12 (modeling files of the families, pytorch_utils.py) and PyTorch 2.6's torch.nn.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "torch/ops/quantized.h"
#include "torch/tensor.h"
#include "torch/torch.h"
#include "whatfits/config.h"

namespace whatfits::hf {

using torch::Shape;
using torch::Tensor;

/// nn.Linear, Conv1D, whose weight is [in, out], or FalconLinear, which adds its bias to the finished product; with a LoRA adapter
/// beside it where `lora_a` is defined. bnb.nn.Linear4bit, which Conv1D becomes as well, has `packed` in place of `weight`.
struct Linear {
  Tensor weight;
  torch::Weight4bit packed;
  DType compute_dtype = DType::float32;  ///< bnb_4bit_compute_dtype
  mutable Tensor bias;                   ///< a Linear4bit casts its own to the type of its input when it is first called
  Tensor lora_a, lora_b;
  double lora_dropout = 0;
  bool conv1d = false;
  bool falcon = false;
  /// parallelize_module's: ColwiseParallel, whose input is the same on all ranks, or RowwiseParallel, whose output is summed over them.
  enum class Cut : std::uint8_t { none, columns, rows } cut = Cut::none;

  explicit operator bool() const { return weight || packed; }
  Tensor operator()(const Tensor& x) const;

 private:
  Tensor base(const Tensor& x) const;
  Tensor quantised(const Tensor& x) const;
  Tensor update(const Tensor& x) const;
};

/// nn.LayerNorm; weight and bias may be undefined (OLMo).
struct LayerNorm {
  Tensor weight, bias;
  Tensor operator()(const Tensor& x) const;
};

/// The norm of the Llama family: computed in float32, the weight multiplied last.
struct RmsNorm {
  Tensor weight;
  Tensor operator()(const Tensor& x) const;
};

/// Makes a model's parameters and buffers on the device, in the order in which model.to("cuda") moves them.
class Builder {
 public:
  Builder(torch::Torch& torch, const Config& config);

  /// What follows belongs to this block; kNoLayer: to none.
  void block(std::int16_t index);
  Tensor parameter(const std::string& name, const Shape& shape);
  Tensor buffer(const std::string& name, const Shape& shape, DType dtype);
  Tensor embedding(const std::string& name, Dim rows, Dim width);  ///< the input embedding's weight
  Linear linear(const std::string& name, Dim in, Dim out, bool bias);
  Linear conv1d(const std::string& name, Dim in, Dim out);
  LayerNorm layer_norm(const std::string& name, Dim width, bool bias = true);
  RmsNorm rms_norm(const std::string& name, Dim width);
  /// The head's weight: the embedding where they are tied, else its own.
  Tensor head(const std::string& name, Dim width, Dim rows, const Tensor& embedding);

  /// Once all of a model is there: what PEFT does to a quantised one, the cast of all that is not quantised to float32, then adapters.
  void finish();

  std::int64_t ways() const { return ways_; }
  DType dtype() const { return dtype_; }
  /// All that want gradients, in order: what the optimizer gets.
  const std::vector<Tensor>& trainable() const { return trainable_; }

 private:
  bool quantised() const { return config_.lora && config_.lora->nf4; }
  Dim of_rank(Dim rows) const { return ways_ > 1 ? Dim{rows.size / ways_} : rows; }
  Tensor loaded(const std::string& name, const Shape& shape);
  Tensor later(const Shape& shape, DType dtype, const Tensor& now);
  Tensor tensor(const std::string& name, const Shape& shape, DType dtype, bool wants_gradient, bool adapter = false);
  Linear linear(const std::string& name, Dim in, Dim out, bool bias, bool conv1d);
  void adapt(Linear& linear, const std::string& name, Dim in, Dim out);

  torch::Torch& torch_;
  const Config& config_;
  const std::int64_t ways_;     ///< ranks that share each matrix
  DType loaded_as_;             ///< the type of the weights in the checkpoint
  DType dtype_;                 ///< of parameters
  bool wants_gradient_ = true;  ///< of a parameter where it stands now
  std::vector<Tensor> trainable_;
  /// Of a quantised model: tensors that get their memory in finish(), each with what it is cast from, which goes then.
  struct Late {
    Tensor tensor, from;
  };
  std::vector<Late> casts_, adapters_;
  Tensor dynamic_code_;
};

/// ACT2FN[name](x)
Tensor activate(Activation activation, const Tensor& x);

}  // namespace whatfits::hf
