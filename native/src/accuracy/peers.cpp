#include "accuracy/peers.h"

namespace whatfits::accuracy {

namespace {

constexpr double kMiB = 1048576;

/// A run's dimensions as the formulas have them. N is GPT-2's, with one tensor for tokens and head.
struct Shape {
  explicit Shape(const Config& config)
      : L(static_cast<double>(config.model.n_layer)),
        h(static_cast<double>(config.model.n_embd)),
        a(static_cast<double>(config.model.n_head)),
        f(4 * h),
        V(static_cast<double>(config.model.vocab_size)),
        s(static_cast<double>(config.seq_len)),
        b(static_cast<double>(config.batch)),
        N((V + static_cast<double>(config.model.n_positions)) * h + L * (12 * h * h + 13 * h) + 2 * h) {}
  double L, h, a, f, V, s, b, N;
  double sbhL() const { return s * b * h * L; }
};

// Embeddings in and out counted apart, no biases: 163M for GPT-2 small's 124M.
double untied(const Shape& x) { return 2 * x.V * x.h + x.h * x.s + 8 * x.h * x.L + 2 * x.h + 12 * x.L * x.h * x.h; }

double eleuther(const Config& config, double low) {
  const Shape x(config);
  return 20 * untied(x) + x.sbhL() * (16 * low + 2 + (2 * low + 1) * x.a * x.s / x.h);
}

}  // namespace

const std::vector<Peer>& peers() {
  static const std::vector<Peer> list{
      {"EleutherAI, mixed precision off", "20 of its N + sbhL(34 + 5as/h)", [](const Config& c) { return eleuther(c, 2); }},
      {"EleutherAI, and 4 bytes a value", "20 of its N + sbhL(66 + 9as/h)", [](const Config& c) { return eleuther(c, 4); }},
      {"gpu_poor", "8 of its N + L(32sbh + 8abs² + 12sbf + 8sb) + 650 MiB",
       [](const Config& c) {
         const Shape x(c);
         const double count = 2 * x.V * x.h + 4 * x.L * x.h * x.h + 3 * x.L * x.f * x.h;
         return 8 * count + x.b * x.L * (32 * x.s * x.h + 8 * x.a * x.s * x.s + 12 * x.s * x.f + 8 * x.s) + 650 * kMiB;
       }},
      {"vram.asmirnov.xyz", "16N + 8bsV + sbhL(66 + 9as/h) + 1000 MiB",
       [](const Config& c) {
         const Shape x(c);
         return 16 * x.N + 8 * x.b * x.s * x.V + x.sbhL() * (66 + 9 * x.a * x.s / x.h) + 1000 * kMiB;
       }},
      {"Reducing Activation Recomputation, with 16N", "16N + sbhL(34 + 5as/h)",
       [](const Config& c) {
         const Shape x(c);
         return 16 * x.N + x.sbhL() * (34 + 5 * x.a * x.s / x.h);
       }},
      {"training_hub, its middle", "1.1 (16N + 4bsLh + 32bsV/3)",
       [](const Config& c) {
         const Shape x(c);
         return 1.1 * (16 * x.N + 4 * x.sbhL() + x.b * x.s * x.V * 32 / 3);
       }},
      {"gpu-memory-calculator", "20N + 4bshL + 5 GB",
       [](const Config& c) {
         const Shape x(c);
         return 20 * x.N + 4 * x.sbhL() + 5e9;
       }},
      {"gpu-mem-calculator", "1.2 (20N + 16bshL)",
       [](const Config& c) {
         const Shape x(c);
         return 1.2 * (20 * x.N + 16 * x.sbhL());
       }},
      {"DeepSpeed, ZeRO-2 on one card", "20N", [](const Config& c) { return 20 * Shape(c).N; }},
      {"LLaMA-Factory's table", "18N", [](const Config& c) { return 18 * Shape(c).N; }},
      {"accelerate estimate-memory", "16N", [](const Config& c) { return 16 * Shape(c).N; }},
      {"Hugging Face's post on training memory", "12N + max(4N, 4bs(0.00046894N + 1849400))",
       [](const Config& c) {
         const Shape x(c);
         const double outputs = 4 * x.b * x.s * (4.6894e-4 * x.N + 1.8494e6);
         return 12 * x.N + (outputs > 4 * x.N ? outputs : 4 * x.N);
       }},
  };
  return list;
}

}  // namespace whatfits::accuracy
