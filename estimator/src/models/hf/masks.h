// Transformers' masking_utils.py: which mask a model makes of the one it is given, and the small tensors it takes to find out.
#pragma once

#include "models/hf/modules.h"

namespace whatfits::hf {

/// A small tensor of an operator with nothing that anybody asks for.
Tensor small(torch::Torch& torch, OpKind op, const Shape& shape, DType dtype, const char* label);

struct MaskRequest {
  bool eager = false;       ///< a float mask is added to the scores; otherwise SDPA takes a boolean one, or none
  bool padded = false;      ///< the attention_mask has zeros
  bool has_cache = true;    ///< past_key_values is there: no search for packed sequences
  bool flash = false;       ///< flash-attention-2: the kernel knows its window, and is given a mask only where something is padded
  bool and_true = false;    ///< an and_mask_function that is always true is passed (Falcon): a mask is made in any case
  std::int64_t window = 0;  ///< of sliding attention; 0 for none
  DType dtype = DType::float32;
};

/// [1 or B, 1, T, T]: boolean for SDPA, of `dtype` for eager; undefined where SDPA's is_causal is enough.
Tensor make_causal_mask(torch::Torch& torch, const MaskRequest& request, Dim batch, Dim tokens, const Tensor& attention_mask,
                        const Tensor& position_ids);

}  // namespace whatfits::hf
