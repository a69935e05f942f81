// llm.c's memory: every buffer has its size before the first step, so its table is exact.
// Source: karpathy/llm.c at f1e2ace, fill_in_parameter_sizes, fill_in_activation_sizes and gpt2_allocate_state of train_gpt2.cu (the
// bf16 build), their like and fill_in_grad_act_sizes of train_gpt2_fp32.cu (the fp32 build). Names are those of its structs.
#include <algorithm>
#include <string>

#include "analysis/accounts.h"
#include "analysis/saturating.h"

namespace whatfits {
namespace {

constexpr Bytes kPage = 2 * MiB;            // what cudaMalloc takes of the device at least
constexpr Bytes kLtWorkspace = 32 * MiB;    // cublaslt_workspace_size
constexpr std::uint64_t kVocabulary = 128;  // the padded vocabulary is a multiple of this

/// Which build and which -r a buffer belongs to.
enum When : std::uint8_t { always, fp32_build, bf16_build, layer_norms, gelu, gelu_again, explicit_scores, cudnn };

struct Buffer {
  const char* label;
  Category category;
  const char* formula;
  Bytes each;  ///< 0: of the build's floating type
  When when = always;
};

constexpr Buffer kParameters[] = {
    {"wte", Category::parameters, "V·C", 0},        {"wpe", Category::parameters, "P·C", 0},
    {"ln1w", Category::parameters, "L·C", 0},       {"ln1b", Category::parameters, "L·C", 0},
    {"qkvw", Category::parameters, "3·L·C²", 0},    {"qkvb", Category::parameters, "3·L·C", 0},
    {"attprojw", Category::parameters, "L·C²", 0},  {"attprojb", Category::parameters, "L·C", 0},
    {"ln2w", Category::parameters, "L·C", 0},       {"ln2b", Category::parameters, "L·C", 0},
    {"fcw", Category::parameters, "4·L·C²", 0},     {"fcb", Category::parameters, "4·L·C", 0},
    {"fcprojw", Category::parameters, "4·L·C²", 0}, {"fcprojb", Category::parameters, "L·C", 0},
    {"lnfw", Category::parameters, "C", 0},         {"lnfb", Category::parameters, "C", 0},
};
constexpr Buffer kGradients[] = {{"gradients", Category::gradients, "N", 0}};
constexpr Buffer kActivations[] = {
    {"encoded", Category::activations, "B·T·C", 0},
    {"ln1", Category::activations, "L·B·T·C", 0, layer_norms},
    {"ln1_mean", Category::activations, "L·B·T", 4},
    {"ln1_rstd", Category::activations, "L·B·T", 4},
    {"atty", Category::activations, "L·B·T·C", 0},
    {"att", Category::attention, "L·B·NH·T²", 0, explicit_scores},
    {"att", Category::attention, "L·B·NH·T", 4, cudnn},  // its statistics alone
    {"attproj", Category::activations, "L·B·T·C", 0, fp32_build},
    {"residual2", Category::activations, "L·B·T·C", 0},
    {"ln2", Category::activations, "L·B·T·C", 0, layer_norms},
    {"ln2_mean", Category::activations, "L·B·T", 4},
    {"ln2_rstd", Category::activations, "L·B·T", 4},
    {"fch", Category::activations, "4·L·B·T·C", 0},
    {"fch_gelu", Category::activations, "4·L·B·T·C", 0, gelu},
    {"fch_gelu", Category::activations, "4·B·T·C", 0, gelu_again},
    {"fcproj", Category::activations, "L·B·T·C", 0, fp32_build},
    {"residual3", Category::activations, "L·B·T·C", 0},
    {"lnf", Category::activations, "B·T·C", 0},
    {"lnf_mean", Category::activations, "B·T", 4},
    {"lnf_rstd", Category::activations, "B·T", 4},
    {"losses", Category::activations, "B·T", 4},
    {"qkvr", Category::activations, "3·L·B·T·C", 0},
    {"output", Category::logits, nullptr, 0},  // see output()
    {"scratch_bt4c", Category::temporaries, "4·B·T·C", 0, bf16_build},
    {"scratch_btc", Category::temporaries, "B·T·C", 0, bf16_build},
};
constexpr Buffer kIds[] = {{"inputs and targets", Category::inputs, "2·B·T", 4}, {"mean loss", Category::inputs, "1", 4, bf16_build}};
constexpr Buffer kFirstMoment[] = {{"m_memory", Category::optimizer_state, "N", 4}};
constexpr Buffer kSecondMoment[] = {{"v_memory", Category::optimizer_state, "N", 4}};
constexpr Buffer kMaster[] = {{"master_weights", Category::optimizer_state, "N", 4, bf16_build}};
constexpr Buffer kWorkspace[] = {{"cublaslt_workspace", Category::workspaces, "1", kLtWorkspace, bf16_build}};
/// The fp32 build keeps these apart, one of each for all layers.
constexpr Buffer kBackward[] = {{"gradient of fch", Category::temporaries, "4·B·T·C", 0, fp32_build},
                                {"gradient of att", Category::attention, "B·NH·T²", 0, fp32_build},
                                {"gradient of residual3", Category::temporaries, "B·T·C", 0, fp32_build}};

class LlmC {
 public:
  explicit LlmC(const Config& config)
      : wide_(config.precision == Precision::fp32),
        cudnn_(!wide_ && config.attention != Attention::eager),
        recompute_(config.checkpointing == Checkpointing::full        ? 2
                   : config.checkpointing == Checkpointing::selective ? 1
                                                                      : 0),
        config_(config),
        products_(config) {
    products_.vocabulary = round_up(saturating::dimension(config.model.vocab_size), kVocabulary);
  }

  Account account() {
    for (const Buffer& one : kParameters) products_.parameters += products_.elements(one.formula);
    account_.parameters = products_.parameters;
    const Bytes parameters = allocate(kParameters);
    const Bytes gradients = allocate(kGradients);
    const Bytes activations = allocate(kActivations);
    allocate(kIds);
    const Bytes moment = allocate(kFirstMoment);
    allocate(kSecondMoment);
    allocate(kMaster);
    allocate(kWorkspace);
    const Bytes backward = allocate(kBackward);

    auto& notes = account_.assumptions;
    notes.push_back((wide_ ? std::string("llm.c, train_gpt2_fp32.cu")
                           : "llm.c, train_gpt2.cu, bf16 with fp32 master weights, -r " + std::to_string(recompute_)) +
                    (cudnn_ ? ", with cuDNN (up to 256 MiB for it are not counted)" : "") + ": a table of buffers, nothing replayed");
    std::string printed = "it prints, in MiB: " + mib("parameters ", parameters) + mib(", gradients ", gradients) +
                          mib(", activations ", activations) + mib(", m and v ", moment);
    if (wide_) {
      printed += mib(", activation gradients ", backward);
    } else {
      // One sequence's share, and what more of them the rest of the card would hold.
      const Bytes batch = saturating::dimension(config_.batch);
      const Bytes sequence = std::max<Bytes>(activations / batch, 1);
      const Bytes left = saturating::subtract(static_cast<Bytes>(config_.device.free_mib) * MiB, account_.reserved);
      printed += mib(", master copy ", moment) + mib("; memory per sequence ", sequence) + "; estimated maximum batch size " +
                 std::to_string(batch + left / sequence);
      notes.emplace_back("optimizer state that it moves to the host where the card is full counts as not fitting");
    }
    notes.push_back(std::move(printed));
    notes.push_back("a vocabulary padded to " + std::to_string(products_.vocabulary) +
                    ", no dropout; reserved is each cudaMalloc in pages of 2 MiB");
    return std::move(account_);
  }

 private:
  static std::string mib(const char* what, Bytes bytes) { return what + std::to_string(bytes / MiB); }

  bool has(When when) const {
    switch (when) {
      case fp32_build:
        return wide_;
      case bf16_build:
        return !wide_;
      case layer_norms:
        return recompute_ < 2;
      case gelu:
        return recompute_ < 1;
      case gelu_again:
        return recompute_ >= 1;
      case explicit_scores:
        return !cudnn_;
      case cudnn:
        return cudnn_;
      case always:
        break;
    }
    return true;
  }

  /// Logits, then their gradients, and a scratchpad for the blocks: as large as the largest of the three.
  const char* output() const {
    const char* largest = "B·T·V";
    for (const char* other : {"3·B·T·C", "B·NH·T²"}) {
      if (products_.elements(other) > products_.elements(largest)) largest = other;
    }
    return largest;
  }

  /// One cudaMalloc; gives its bytes.
  template <std::size_t N>
  Bytes allocate(const Buffer (&buffers)[N]) {
    return allocate(buffers, N);
  }
  Bytes allocate(const Buffer* buffers, std::size_t count) {
    Bytes bytes = 0;
    for (const Buffer* one = buffers; one != buffers + count; ++one) {
      if (!has(one->when)) continue;
      const Bytes each = one->each != 0 ? one->each : wide_ ? 4 : 2;
      bytes = saturating::add(bytes,
                              products_.add(account_, one->label, one->category, one->formula != nullptr ? one->formula : output(), each));
    }
    const Bytes pages = bytes / kPage + (bytes % kPage != 0 ? 1 : 0);
    account_.reserved = saturating::add(account_.reserved, saturating::multiply(pages, kPage));
    return bytes;
  }

  bool wide_, cudnn_;
  int recompute_;
  const Config& config_;
  Products products_;
  Account account_;
};

}  // namespace

Account llm_c_account(const Config& config) { return LlmC(config).account(); }

}  // namespace whatfits
