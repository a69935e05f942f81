#include "torch/autocast.h"
#include "torch/autograd.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

struct LayerNormBackward final : Node {
  using Node::Node;
  Saved bias;
  Saved input;
  Saved weight;
  Saved mean;
  Saved rstd;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor b = bias.unpack();
    const Tensor x = input.unpack();
    const Tensor w = weight.unpack();
    const Tensor m = mean.unpack();
    const Tensor r = rstd.unpack();
    Tensor dx = torch.empty(OpKind::layer_norm_backward, x.shape(), x.dtype());
    if (!w || !b) {
      Tensor dw;
      if (w && wants(1)) dw = torch.empty(OpKind::layer_norm_backward, w.shape(), w.dtype());
      torch.recorder.op({.kind = OpKind::layer_norm_backward}, {grads[0].id(), x.id(), m.id(), r.id()}, {dx.id()});
      out.resize(3);
      out[0] = std::move(dx);
      out[1] = std::move(dw);
      return;
    }
    Tensor dw, db;
    if (wants(1)) dw = torch.empty(OpKind::layer_norm_backward, w.shape(), w.dtype());
    if (wants(2)) db = torch.empty(OpKind::layer_norm_backward, b.shape(), b.dtype());
    if (dw && db) {
      torch.recorder.op({.kind = OpKind::layer_norm_backward}, {grads[0].id(), x.id(), w.id(), m.id(), r.id()},
                        {dx.id(), dw.id(), db.id()});
    } else {
      torch.recorder.op({.kind = OpKind::layer_norm_backward}, {grads[0].id(), x.id(), w.id(), m.id(), r.id()}, {dx.id()});
    }
    out = {std::move(dx), std::move(dw), std::move(db)};
  }
  void release() override {
    bias.reset();
    input.reset();
    weight.reset();
    mean.reset();
    rstd.reset();
  }
};

}  // namespace

Tensor layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (!input) return {};
  const Tensor b = autocast_to_float32(bias);
  const Tensor w = autocast_to_float32(weight);
  const Tensor x = autocast_to_float32(input);
  if (!x) return {};
  Torch& torch = x.torch();
  const auto node = make_node<LayerNormBackward>(torch, {&x, &w, &b});
  if (node) {
    node->bias.save(b);
    node->input.save(x);
    node->weight.save(w);
  }
  if (torch.stopped) return {};
  Shape rows = x.shape();
  rows[-1] = Dim{};
  Tensor out = torch.empty(OpKind::layer_norm, x.shape(), x.dtype());
  Tensor mean = torch.empty(OpKind::layer_norm, rows, DType::float32);
  Tensor rstd = torch.empty(OpKind::layer_norm, rows, DType::float32);
  mean.named("layer norm statistics");
  rstd.named("layer norm statistics");
  const Frame frame{&mean, &rstd};
  if (w && b) {
    torch.recorder.op({.kind = OpKind::layer_norm, .scalar = 1e-5}, {x.id(), w.id(), b.id()}, {out.id(), mean.id(), rstd.id()});
  } else {
    torch.recorder.op({.kind = OpKind::layer_norm, .scalar = 1e-5}, {x.id()}, {out.id(), mean.id(), rstd.id()});
  }
  if (node) {
    node->mean.save_output(mean);
    node->rstd.save_output(rstd);
  }
  return attach(std::move(out), node);
}

}  // namespace whatfits::torch
