#include "models/gpt2_from_scratch.h"

#include <cmath>
#include <limits>

#include "torch/checkpoint.h"
#include "torch/ops.h"
#include "torch/wrapper.h"

namespace whatfits {

using torch::Frame;
using torch::Shape;
using torch::Tensor;

namespace {
// GPT-2's initialisation: matrices and embeddings normal with deviation 0.02, biases 0, norms 1.
constexpr OpInfo kNormal{.kind = OpKind::randn, .scalar = 0.02};
constexpr OpInfo kOnes{.kind = OpKind::fill, .scalar = 1};
constexpr OpInfo kZeros{.kind = OpKind::fill, .scalar = 0};
}  // namespace

Gpt2FromScratch::Gpt2FromScratch(torch::Torch& torch, const Config& config)
    : torch_(torch),
      config_(config),
      B{config.batch, letters::B},
      T{config.seq_len, letters::T},
      C{config.model.n_embd, letters::C},
      NH{config.model.n_head, letters::NH},
      V{config.model.vocab_size, letters::V},
      P{config.model.n_positions, letters::P},
      dtype_(config.precision == Precision::bf16 ? DType::bfloat16 : DType::float32) {
  wte_ = parameter("wte.weight", {V, C}, kNormal);
  wpe_ = parameter("wpe.weight", {P, C}, kNormal);
  for (std::int64_t i = 0; i < config.model.n_layer; ++i) {
    Block block;
    block.index = static_cast<std::int16_t>(i);
    torch.recorder.layer(block.index);
    const std::string name = "h." + std::to_string(i);
    block.ln_1 = layer_norm(name + ".ln_1");
    block.c_attn = linear(name + ".attn.c_attn", C, 3 * C);
    block.attn_proj = linear(name + ".attn.c_proj", C, C);
    block.mask = torch.empty(OpKind::copy, {P, P}, dtype_);
    block.mask.named("causal mask", Category::buffers);
    torch.recorder.op({.kind = OpKind::tril}, {}, {block.mask.id()});
    block.ln_2 = layer_norm(name + ".ln_2");
    block.c_fc = linear(name + ".mlp.c_fc", C, 4 * C);
    block.mlp_proj = linear(name + ".mlp.c_proj", 4 * C, C);
    blocks_.push_back(std::move(block));
  }
  torch.recorder.layer(kNoLayer);
  ln_f_ = layer_norm("ln_f");
  // lm_head.weight is wte.weight
}

Tensor Gpt2FromScratch::parameter(const std::string& name, const Shape& shape, OpInfo init) {
  Tensor p = torch_.parameter(shape, dtype_, init);
  p.named(name, Category::parameters);
  p->leaf_requires_grad = true;
  torch_.recorder.program.parameters += static_cast<std::uint64_t>(shape.elements());
  parameters_.push_back(p);
  return p;
}

Gpt2FromScratch::LayerNorm Gpt2FromScratch::layer_norm(const std::string& name) {
  LayerNorm ln;
  ln.weight = parameter(name + ".weight", {C}, kOnes);
  ln.bias = parameter(name + ".bias", {C}, kZeros);
  return ln;
}

Gpt2FromScratch::Linear Gpt2FromScratch::linear(const std::string& name, Dim in, Dim out) {
  Linear l;
  l.weight = parameter(name + ".weight", {out, in}, kNormal);
  l.bias = parameter(name + ".bias", {out}, kZeros);
  return l;
}

Tensor Gpt2FromScratch::Linear::operator()(const Tensor& x) const { return torch::linear(x, weight, bias); }
Tensor Gpt2FromScratch::LayerNorm::operator()(const Tensor& x) const {
  return torch::layer_norm(x, weight, bias).named("layer norm output");
}

Tensor Gpt2FromScratch::attention(const Block& block, const Tensor& x) const {
  const Dim hd = C / NH;
  Tensor q, k, v, context, score, blocked, masked_score, att, merged;
  const Frame frame{&q, &k, &v, &context, &score, &blocked, &masked_score, &att, &merged};

  {
    const Tensor qkv = block.c_attn(x).named("query, key and value");
    auto parts = torch::split3(qkv, 2);
    q = std::move(parts[0]);
    k = std::move(parts[1]);
    v = std::move(parts[2]);
  }
  const Shape heads{B, T, NH, hd};
  q = torch::transpose(torch::view(q, heads), 1, 2);
  k = torch::transpose(torch::view(k, heads), 1, 2);
  v = torch::transpose(torch::view(v, heads), 1, 2);
  if (config_.attention != Attention::eager) {
    constexpr torch::SdpaBackend backend[] = {torch::SdpaBackend::automatic, torch::SdpaBackend::automatic, torch::SdpaBackend::math,
                                              torch::SdpaBackend::efficient, torch::SdpaBackend::flash};
    // The script's sdpa_kernel() surrounds forward alone: what a checkpoint runs again in backward, PyTorch chooses.
    const Attention allowed = torch_.recomputing != nullptr ? Attention::sdpa : config_.attention;
    context = torch::scaled_dot_product_attention(q, k, v, backend[static_cast<int>(allowed)]);
  } else {
    {
      const Tensor product = torch::matmul(q, torch::transpose(k, 2, 3));
      score = torch::div(product, std::sqrt(static_cast<double>(hd.size)));
    }
    score.named("attention scores");
    blocked = torch::eq(torch::slice(torch::slice(block.mask, 0, T), 1, T), 0).named("causal mask comparison");
    masked_score = torch::masked_fill(score, blocked, -std::numeric_limits<double>::infinity()).named("masked attention scores");
    att = torch::softmax(masked_score).named("attention probabilities");
    context = torch::matmul(att, v);
  }
  context.named("attention output, by head");
  merged = torch::view(torch::contiguous(torch::transpose(context, 1, 2)), {B, T, C});
  merged.named("attention output, before projection");
  return block.attn_proj(merged);
}

Tensor Gpt2FromScratch::mlp(const Block& block, const Tensor& x) const {
  // self.c_proj(self.act(self.c_fc(x))): an argument goes when its call has returned, as a name does when it is bound again.
  Tensor h = block.c_fc(x);
  h.named("MLP hidden layer, before GELU");
  h = torch::gelu(h);
  h.named("MLP hidden layer, after GELU");
  return block.mlp_proj(h);
}

Tensor Gpt2FromScratch::call(const Block& block, const Tensor& x) const {
  return torch::call_block(torch_, block.index, x, [&](const Tensor& input) { return block_forward(block, input); });
}

Tensor Gpt2FromScratch::block_forward(const Block& block, const Tensor& input) const {
  torch_.recorder.layer(block.index);
  Tensor x = input;
  Tensor attn_out, mlp_out;
  const Frame frame{&attn_out, &mlp_out};  // x is what the call returns
  attn_out = attention(block, block.ln_1(x));
  attn_out.named("attention output, projected");
  x = torch::add(x, attn_out);
  x.named("residual stream after attention");
  mlp_out = mlp(block, block.ln_2(x));
  mlp_out.named("MLP output");
  x = torch::add(x, mlp_out);
  x.named("residual stream");
  return x;
}

Gpt2FromScratch::Output Gpt2FromScratch::forward(const Tensor& idx, const Tensor& targets) {
  Tensor tok, pos, x, logits, loss;
  const Frame frame{&tok, &pos, &x, &logits, &loss};
  tok = torch::embedding(wte_, idx);
  tok.named("token embeddings");
  {
    const Tensor positions = torch::arange(torch_, T);
    positions.named("positions");
    pos = torch::embedding(wpe_, positions);
    pos.named("position embeddings");
  }
  x = torch::add(tok, pos);
  x.named("residual stream");
  for (const Block& block : blocks_) {
    if (config_.checkpointing != Checkpointing::none) {
      const bool selective = config_.checkpointing == Checkpointing::selective;
      x = torch::checkpoint(x, [this, &block](const Tensor& input) { return call(block, input); }, selective);
    } else {
      x = call(block, x);
    }
  }
  torch_.recorder.layer(kNoLayer);
  x = ln_f_(x);
  x.named("final layer norm output");
  {
    const Tensor none;
    logits = torch::linear(x, wte_, none);  // lm_head
  }
  logits.named("logits");
  {
    const Tensor flat = torch::view(logits, {B * T, V});  // named: the order of a call's arguments is the compiler's
    loss = torch::cross_entropy(flat, torch::reshape(targets, {B * T}));
  }
  return {logits, loss};
}

}  // namespace whatfits
