// What is modelled from the published code of others: said in every report, and never counted as recorded.
#include "whatfits/near.h"

namespace whatfits {

std::vector<std::string> described(const Config& config) {
  std::vector<std::string> lines;
  const auto modelled = [&lines](const char* what, const char* from, const char* how) {
    lines.push_back(std::string(what) + " modelled from " + from + ", which was run without its kernels and never on a card: " + how);
  };
  if (config.lora && config.lora->nf4) {
    modelled("QLoRA is", "the code of bitsandbytes 0.49 and PEFT 0.18",
             "nf4 with double quantisation for every linear layer but the head; weights come to the card one by one, each in the type it "
             "was saved in until it is packed; products take an unpacked copy, again in backward (bitsandbytes 0.50 needs none for up to "
             "1,536 rows); what from_pretrained takes ahead from the card is not replayed");
    lines.emplace_back(config.lora->prepare
                           ? "prepare_model_for_kbit_training: what is not quantised is float32; it also turns checkpointing on, which is "
                             "the request's own switch here"
                           : "without prepare_model_for_kbit_training: what is not quantised stays in the type it was loaded in");
  }
  if (config.attention == Attention::flash_attention_2) {
    modelled("flash_attention_2 is", "the package flash-attn 2.8", "no mask, no repeated heads, its random state on the card");
  }
  if (config.loss == Loss::fused_linear) {
    modelled("the fused linear cross-entropy is", "Liger Kernel's code",
             "tokens go through the head in chunks, the power of two at or above tokens / ceil(V / C), and the gradients of hidden states "
             "and of the head's weight are made in forward; there are no logits to keep");
  }
  switch (config.optimizer) {
    case Optimizer::adamw_8bit:
    case Optimizer::adamw_8bit_paged:
      modelled(
          "8-bit AdamW is", "the code of bitsandbytes 0.49",
          "two moments of a byte an element, a float32 scale for every 256; tensors of fewer than 4,096 elements keep both in float32");
      break;
    case Optimizer::muon:
      modelled("Muon is", "torch.optim.Muon of PyTorch 2.9", "for the matrices of the blocks; AdamW (foreach) steps the rest after it");
      break;
    case Optimizer::lion:
      modelled("Lion is", "lion-pytorch", "one moment in the parameter's type, one parameter at a time");
      break;
    default:
      break;
  }
  return lines;
}

}  // namespace whatfits
