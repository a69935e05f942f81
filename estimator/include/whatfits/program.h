// A training run as data: what is allocated, computed and freed, in order, before any memory exists.
//
// The Program depends on the request and on the card's architecture, never on the card's memory. Replay walks it over a
// virtual card; the native executors walk the same events with real memory and real kernels.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "whatfits/bytes.h"

namespace whatfits {

enum class DType : std::uint8_t { float32, bfloat16, float16, float64, int64, uint8, boolean };
Bytes size_of(DType dtype);             ///< bytes of one element
std::string_view name_of(DType dtype);  ///< PyTorch's name, without "torch."

/// A product of powers of the letters that people use for a transformer's dimensions, one signed byte an exponent.
/// Multiplying dimensions adds them, dividing subtracts them.
using Letters = std::int64_t;
namespace letters {
inline constexpr Letters B = Letters{1};         ///< sequences per micro-batch
inline constexpr Letters T = Letters{1} << 8;    ///< tokens per sequence
inline constexpr Letters C = Letters{1} << 16;   ///< width of the residual stream
inline constexpr Letters NH = Letters{1} << 24;  ///< attention heads
inline constexpr Letters V = Letters{1} << 32;   ///< vocabulary
inline constexpr Letters P = Letters{1} << 40;   ///< positions the model was made for
/// The exponent of the letter in byte `index` (0 for B, 1 for T, ...), -128 to 127.
int exponent(Letters letters, int index);
}  // namespace letters

/// One dimension of a shape: how many, and what people call it.
struct Dim {
  std::int64_t size = 1;
  Letters letters = 0;
  friend constexpr Dim operator*(Dim a, Dim b) { return {a.size * b.size, a.letters + b.letters}; }
  friend constexpr Dim operator*(std::int64_t n, Dim d) { return {n * d.size, d.letters}; }
  /// `a.size` must be a multiple of `b.size`.
  friend constexpr Dim operator/(Dim a, Dim b) { return {a.size / b.size, a.letters - b.letters}; }
};

inline constexpr int kMaxRank = 5;

/// Sizes of a tensor, outermost first. A negative index counts from the end.
struct Shape {
  Shape() = default;
  Shape(std::initializer_list<Dim> list);
  int rank = 0;
  std::array<Dim, kMaxRank> dims{};
  Dim operator[](int i) const { return dims[static_cast<std::size_t>(i < 0 ? rank + i : i)]; }
  Dim& operator[](int i) { return dims[static_cast<std::size_t>(i < 0 ? rank + i : i)]; }
  std::int64_t elements() const;
  /// Of the same sizes, whatever people call them.
  friend bool operator==(const Shape& a, const Shape& b);
};

/// Elements from one to the next, for each dimension.
using Strides = std::array<std::int64_t, kMaxRank>;

/// How a tensor lies in its storage. A program has few that differ, and tens of thousands of tensors.
struct Layout {
  Shape shape;
  Strides strides{};
  std::int64_t offset = 0;  ///< in elements
  DType dtype = DType::float32;
};

using StorageId = std::uint32_t;
using TensorId = std::uint32_t;
using LayoutId = std::uint32_t;

/// A view of a storage.
struct TensorInfo {
  StorageId storage = 0;
  LayoutId layout = 0;  ///< index into Program::layouts
};

enum class Phase : std::uint8_t { warmup, model, optimizer, forward, backward, clip, optimizer_step, zero_grad };
std::string_view name_of(Phase phase);

/// What a tensor's memory is for. `rounding` is no tensor's: it is what blocks have beyond the bytes asked for.
enum class Category : std::uint8_t {
  parameters,
  gradients,
  optimizer_state,
  buffers,
  workspaces,
  activations,
  attention,
  logits,
  temporaries,
  inputs,
  rounding
};
inline constexpr int kCategories = 11;
std::string_view name_of(Category category);

/// Operators, each with one kernel. Names are PyTorch's.
enum class OpKind : std::uint8_t {
  none,
  randint,
  randn,
  fill,
  arange,
  copy,
  embedding,
  add,
  add_,
  div_scalar,
  mul_scalar,
  mul,
  eq_scalar,
  masked_fill,
  softmax,
  log_softmax,
  nll_loss,
  layer_norm,
  gelu,
  mm,
  addmm,
  bmm,
  cat,
  sum,
  tril,
  where,
  is_neg_inf,
  all,
  reciprocal,
  sqrt,
  div,
  clamp,
  sdpa_flash,
  sdpa_efficient,
  embedding_backward,
  masked_fill_backward,
  softmax_backward,
  log_softmax_backward,
  nll_loss_backward,
  layer_norm_backward,
  gelu_backward,
  sdpa_flash_backward,
  sdpa_efficient_backward,
  adamw,
  adamw_fused,
  sgd,
  sgd_momentum,
  foreach_norm,
  stack,
  vector_norm,
  foreach_mul_,
  zero_,
  unscale_,
  update_scale,
  add_scalar,
  neg,
  cos,
  sin,
  pow,
  rsqrt,
  mean,
  tanh,
  relu,
  silu,
  sigmoid,
  dropout,
  pad,
  compare,
  baddbmm,
  slice_backward,
  tanh_backward,
  relu_backward,
  silu_backward,
  dropout_backward,
  index,
  index_backward,
  adam,
  adafactor,
  adagrad,
  rmsprop,
  quantize_4bit,
  dequantize_4bit,
  adamw_8bit,
  lion,
  muon,
  fused_cross_entropy
};
std::string_view name_of(OpKind kind);

/// Points at which a script reads the counters.
enum class Reading : std::uint8_t {
  after_warmup,
  after_model,
  after_optimizer,
  before,
  after_forward,
  after_backward,
  after_optimizer_step,
  after_zero_grad,
  end_of_step
};

inline constexpr std::int16_t kNoLayer = -1;

/// A piece of memory that the program asks for.
struct StorageInfo {
  Bytes bytes = 0;                ///< asked for; the allocator rounds
  TensorId tensor = 0;            ///< the tensor it was made for: shape and type
  std::uint32_t label = 0;        ///< index into Program::labels
  std::int16_t layer = kNoLayer;  ///< block it belongs to
  OpKind op = OpKind::none;       ///< the operator that asked for it
  Phase phase = Phase::warmup;    ///< the phase it was born in
  Category category = Category::temporaries;
  std::uint8_t stream = 0;  ///< CUDA stream whose pool it comes from: 0, the default one, but for a wrapper's communication
};
inline constexpr std::uint8_t kStreams = 3;

/// A kernel to run. Its operands are Program::operands[first .. first + inputs + outputs + scratch).
/// Outputs are written; an operator that works in place (add_, foreach_mul_, unscale_, update_scale, where, the optimizers) reads them
/// too. Scratch need not be used. The operands' shapes say the rest: which way an operator broadcasts, and
/// - copy: between types and strides; into a larger shape it fills the rest with zeros
/// - add of one operand adds `scalar`; tril of none is that of ones
/// - sum: over the leading dimensions that the output lacks, or over the last with op_flags::last_dimension
/// - stack: puts its operand at index `scalar`; cat and index: along dimension `scalar`
/// - sdpa: causal, with scores divided by the square root of `scalar`
/// - randn: normal with deviation `scalar`
/// - embedding_backward: adds to what is there; scratch of one dimension and type uint8 is plain bytes
struct OpInfo {
  OpKind kind = OpKind::none;
  std::int16_t layer = kNoLayer;
  std::uint32_t first = 0;
  std::uint16_t inputs = 0;
  std::uint16_t outputs = 0;
  std::uint16_t scratch = 0;  ///< temporaries that live only as long as the operator
  std::uint8_t flags = 0;     ///< see op_flags
  double scalar = 0;          ///< the factor, divisor, fill value, deviation, limit, dimension or index, where there is one
};
namespace op_flags {
inline constexpr std::uint8_t last_dimension = 1;  ///< sum: over the last dimension
inline constexpr std::uint8_t recomputed = 4;      ///< any: runs a second time, for a checkpoint
inline constexpr std::uint8_t fresh_momentum = 2;  ///< sgd_momentum: the buffer was made in this step and holds the gradient
}  // namespace op_flags

enum class EventKind : std::uint8_t { alloc, free, op, reading, phase, layer };
/// `index` is a StorageId (alloc, free), an index into ops, a Reading, a Phase, or a layer (65535 for none).
struct Event {
  EventKind kind = EventKind::alloc;
  std::uint32_t index = 0;
};

/// Recorded once, replayed at any capacity and for any number of steps: setup, then step 1, then the repeated step.
/// Step 1 is not like the others (the optimizer's state appears in it); from step 2 on, at times 3, they are all alike.
struct Program {
  std::vector<Event> events;
  std::size_t setup_end = 0;  ///< events [0, setup_end): warm-up, model, optimizer
  std::size_t first_end = 0;  ///< events [setup_end, first_end): step 1
  /// Events [first_end, repeat_begin): step 2 where that is unlike the later ones (DDP makes its buckets anew in it), as a rule none;
  /// [repeat_begin, size): every later step.
  std::size_t repeat_begin = 0;
  /// Whether the step of this number, from 1, is the repeated one.
  bool repeats(int step) const { return step > 2 || (step == 2 && repeat_begin == first_end); }
  /// Storages that a repeated step takes over from the one before: at a step's end `to` is what the next step calls `from`.
  struct Carry {
    StorageId from = 0, to = 0;
  };
  std::vector<Carry> carries;

  std::vector<StorageInfo> storages;
  std::vector<TensorInfo> tensors;
  std::deque<Layout> layouts;  ///< a deque: tensors at work look at its elements while it grows
  const Layout& layout_of(TensorId tensor) const { return layouts[tensors[tensor].layout]; }
  std::vector<OpInfo> ops;
  std::vector<TensorId> operands;
  std::vector<std::string> labels;
  std::vector<std::string> notes;  ///< choices made on the way that a reader should know, for the report's assumptions

  /// Values of the letters, to write formulas with.
  std::array<std::int64_t, 6> letter_values{};
  std::uint64_t parameters = 0;  ///< elements, tied ones once
  std::int64_t rank = 0;         ///< of several cards, the one whose run this is
  /// What the script says of a run that fails: the high-water marks since it began, not only of the failing step.
  bool peak_of_whole_run = false;
};

/// First 16 hex digits of the SHA-256 of the program's canonical text.
std::string program_hash(const Program& program);

/// "B·NH·T²·4": the letters with what is left as a number, and the element's size. Empty when the shape has no letters.
std::string formula_of(const Program& program, const Layout& layout);

}  // namespace whatfits
