#include "whatfits/program.h"

namespace whatfits {

Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 4;
    case DType::bfloat16:
    case DType::float16:
      return 2;
    case DType::float64:
    case DType::int64:
      return 8;
    case DType::uint8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

std::string_view name_of(DType dtype) {
  constexpr std::string_view names[] = {"float32", "bfloat16", "float16", "float64", "int64", "uint8", "bool"};
  return names[static_cast<int>(dtype)];
}

std::string_view name_of(Phase phase) {
  constexpr std::string_view names[] = {"warmup", "model", "optimizer", "forward", "backward", "clip", "optimizer_step", "zero_grad"};
  return names[static_cast<int>(phase)];
}

std::string_view name_of(Category category) {
  constexpr std::string_view names[] = {"parameters", "gradients", "optimizer_state", "buffers", "workspaces", "activations",
                                        "attention",  "logits",    "temporaries",     "inputs",  "rounding"};
  return names[static_cast<int>(category)];
}

std::string_view name_of(OpKind kind) {
  constexpr std::string_view names[] = {"",
                                        "randint",
                                        "randn",
                                        "fill",
                                        "arange",
                                        "copy",
                                        "embedding",
                                        "add",
                                        "add_",
                                        "div",
                                        "mul_scalar",
                                        "mul",
                                        "eq",
                                        "masked_fill",
                                        "softmax",
                                        "log_softmax",
                                        "nll_loss",
                                        "layer_norm",
                                        "gelu",
                                        "mm",
                                        "addmm",
                                        "bmm",
                                        "cat",
                                        "sum",
                                        "tril",
                                        "where",
                                        "isneginf",
                                        "all",
                                        "reciprocal",
                                        "sqrt",
                                        "div",
                                        "clamp",
                                        "scaled_dot_product_flash_attention",
                                        "scaled_dot_product_efficient_attention",
                                        "embedding_backward",
                                        "masked_fill_backward",
                                        "softmax_backward",
                                        "log_softmax_backward",
                                        "nll_loss_backward",
                                        "layer_norm_backward",
                                        "gelu_backward",
                                        "scaled_dot_product_flash_attention_backward",
                                        "scaled_dot_product_efficient_attention_backward",
                                        "adamw",
                                        "fused_adamw",
                                        "sgd",
                                        "sgd_momentum",
                                        "foreach_norm",
                                        "stack",
                                        "vector_norm",
                                        "foreach_mul",
                                        "zero",
                                        "unscale",
                                        "update_scale",
                                        "add_scalar",
                                        "neg",
                                        "cos",
                                        "sin",
                                        "pow",
                                        "rsqrt",
                                        "mean",
                                        "tanh",
                                        "relu",
                                        "silu",
                                        "sigmoid",
                                        "native_dropout",
                                        "constant_pad_nd",
                                        "compare",
                                        "baddbmm",
                                        "slice_backward",
                                        "tanh_backward",
                                        "threshold_backward",
                                        "silu_backward",
                                        "native_dropout_backward",
                                        "index",
                                        "index_backward",
                                        "adam",
                                        "adafactor",
                                        "adagrad",
                                        "rmsprop",
                                        "quantize_4bit",
                                        "dequantize_4bit",
                                        "adamw_8bit",
                                        "lion",
                                        "muon",
                                        "fused_cross_entropy"};
  static_assert(std::size(names) == static_cast<std::size_t>(OpKind::fused_cross_entropy) + 1);
  return names[static_cast<int>(kind)];
}

int letters::exponent(Letters all, int index) {
  // Signed digits to base 256: take the low byte as signed, subtract it, shift, until the wanted one is lowest.
  for (int i = 0;; ++i) {
    const auto low = static_cast<std::int8_t>(all & 0xff);
    if (i == index) return low;
    all = (all - low) / 256;
  }
}

std::string formula_of(const Program& program, const Layout& layout) {
  static constexpr const char* kLetter[] = {"B", "T", "C", "NH", "V", "P"};
  static constexpr int kOrder[] = {0, 3, 1, 2, 4, 5};  // B·NH·T·C·V·P, as the field writes it
  const Shape& shape = layout.shape;
  Letters all = 0;
  for (int i = 0; i < shape.rank; ++i) all += shape[i].letters;
  if (all == 0) return {};
  std::string factors;
  std::string divisors;
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
  for (const int i : kOrder) {
    const int e = letters::exponent(all, i);
    if (e == 0) continue;
    for (int k = 0; k < (e < 0 ? -e : e); ++k) (e < 0 ? denominator : numerator) *= program.letter_values[static_cast<std::size_t>(i)];
    std::string& text = e < 0 ? divisors : factors;
    if (e < 0) text += "/";
    if (e > 0 && !text.empty()) text += "·";
    text += kLetter[i];
    if (e == 2 || e == -2) text += "²";
    if (e == 3 || e == -3) text += "³";
  }
  // What the letters do not explain: 3 for a fused projection, 4 for the MLP.
  if (numerator == 0 || (shape.elements() * denominator) % numerator != 0) return {};
  const std::int64_t rest = shape.elements() * denominator / numerator;
  std::string formula = rest == 1 && !factors.empty() ? "" : std::to_string(rest);
  if (!formula.empty() && !factors.empty()) formula += "·";
  return formula.append(factors).append(divisors).append("·").append(std::to_string(size_of(layout.dtype)));
}

}  // namespace whatfits
