// GPT-2 as people write it by hand: one qkv projection, attention scores spelled out, a float mask in each block, no dropout, the
// head tied to the token embedding. Names live exactly as long as the Python they stand for keeps them.
#pragma once

#include <string>
#include <vector>

#include "torch/tensor.h"
#include "torch/torch.h"
#include "whatfits/config.h"

namespace whatfits {

class Gpt2FromScratch {
 public:
  /// Makes the parameters and buffers on the device, in the order in which model.cuda() moves them.
  Gpt2FromScratch(torch::Torch& torch, const Config& config);

  struct Output {
    torch::Tensor logits;
    torch::Tensor loss;
  };
  Output forward(const torch::Tensor& idx, const torch::Tensor& targets);

  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

 private:
  struct Linear {
    torch::Tensor weight, bias;
    torch::Tensor operator()(const torch::Tensor& x) const;
  };
  struct LayerNorm {
    torch::Tensor weight, bias;
    torch::Tensor operator()(const torch::Tensor& x) const;
  };
  struct Block {
    std::int16_t index = 0;
    LayerNorm ln_1;
    Linear c_attn;
    Linear attn_proj;
    torch::Tensor mask;
    LayerNorm ln_2;
    Linear c_fc;
    Linear mlp_proj;
  };
  torch::Tensor attention(const Block& block, const torch::Tensor& x) const;
  torch::Tensor mlp(const Block& block, const torch::Tensor& x) const;
  torch::Tensor call(const Block& block, const torch::Tensor& x) const;
  torch::Tensor block_forward(const Block& block, const torch::Tensor& input) const;

  torch::Tensor parameter(const std::string& name, const torch::Shape& shape, OpInfo init);
  LayerNorm layer_norm(const std::string& name);
  Linear linear(const std::string& name, Dim in, Dim out);

  torch::Torch& torch_;
  const Config& config_;
  const Dim B, T, C, NH, V, P;
  DType dtype_;
  torch::Tensor wte_, wpe_;
  std::vector<Block> blocks_;
  LayerNorm ln_f_;
  std::vector<torch::Tensor> parameters_;
};

}  // namespace whatfits
