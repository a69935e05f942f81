#!/usr/bin/env python3
"""Trains Transformers' models with attn_implementation="flash_attention_2" on the virtual device, and records the memory counters.

    flash_truth.py SPECS.jsonl           a run a line, in the words of the oracle's hf_one.py; "attn" is set here
    hf_differential.py compare SPECS.jsonl --runs DATA/runs      holds whatfits to the answers
    hf_differential.py rows RUN.json ...                         makes fixtures of them

Runs inside the oracle, copied with each_run.py beside its scripts; it is no part of the tests. The package flash-attn is not there: a
module stands for it whose autograd function makes the tensors that flash-attn 2.8's Python and C++ make (flash_attn_interface.py,
csrc/flash_attn/flash_api.cpp), in their order, and computes nothing.
"""
import importlib.machinery
import math
import sys
import types

import torch
import transformers.models.auto.modeling_auto  # once, ahead of all children
import transformers.modeling_flash_attention_utils as utils
from transformers import AutoModelForCausalLM, PreTrainedModel  # noqa: F401

import each_run
import hf_one


def ceil_div(a, b):
    return (a + b - 1) // b


def splits_of(blocks, multiprocessors, key_blocks, most):
    if blocks >= 0.8 * multiprocessors:
        return 1
    most = min(most, multiprocessors, key_blocks)
    eligible = [s for s in range(1, most + 1) if s == 1 or ceil_div(key_blocks, s) != ceil_div(key_blocks, s - 1)]
    waves = {s: blocks * s / multiprocessors for s in eligible}
    efficiency = {s: w / math.ceil(w) for s, w in waves.items()}
    return next(s for s in eligible if efficiency[s] >= 0.85 * max(efficiency.values()))


def rounded(d):
    unit = 32 if d <= 128 else 64
    return ceil_div(d, unit) * unit


def kernel_forward(q, k, dropout):
    """mha_fwd"""
    b, t, h, d = q.shape
    out = torch.empty_like(q)
    lse = torch.empty((b, h, t), dtype=torch.float32, device=q.device)
    if dropout == 0:
        block = 256 if d <= 64 else 128 if d <= 128 else 64
        multiprocessors = torch.cuda.get_device_properties(q.device).multi_processor_count
        splits = splits_of(b * h * ceil_div(t, 64), 2 * multiprocessors, ceil_div(k.shape[1], block), 128)
        if splits > 1:
            parts = torch.empty((splits, b, h, t), dtype=torch.float32, device=q.device)  # noqa: F841
            outputs = torch.empty((splits, b, h, t, rounded(d)), dtype=torch.float32, device=q.device)  # noqa: F841
    rng_state = torch.empty(2, dtype=torch.int64, device=q.device)
    return out, lse, rng_state


def kernel_backward(q, k, dk, dv):
    """mha_bwd"""
    b, t, h, d = q.shape
    long = ceil_div(t, 128) * 128
    softmax_d = torch.empty((b, h, long), dtype=torch.float32, device=q.device)
    accumulator = torch.empty((b, long, h, rounded(d)), dtype=torch.float32, device=q.device)  # noqa: F841
    kv = k.shape[2]
    if kv != h:
        dk_expanded = torch.empty((b, k.shape[1], h, d), dtype=q.dtype, device=q.device)
        dv_expanded = torch.empty((b, k.shape[1], h, d), dtype=q.dtype, device=q.device)
        torch.sum(dk_expanded.view(b, k.shape[1], kv, h // kv, d), dim=3, out=dk)
        torch.sum(dv_expanded.view(b, k.shape[1], kv, h // kv, d), dim=3, out=dv)
    return softmax_d


class FlashAttnFunc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, dropout):
        assert q.shape[3] % 8 == 0 and q.stride(-1) == 1 and q.dtype in (torch.float16, torch.bfloat16), (q.shape, q.dtype)
        out, lse, rng_state = kernel_forward(q, k, dropout)
        if any(x.requires_grad for x in (q, k, v)):
            ctx.save_for_backward(q, k, v, out, lse, rng_state)
        return out[..., : q.shape[3]]

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse, rng_state = ctx.saved_tensors
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        if dout.stride(-1) != 1:
            dout = dout.contiguous()
        kernel_backward(q, k, dk, dv)
        return dq[..., : dout.shape[-1]], dk[..., : dout.shape[-1]], dv[..., : dout.shape[-1]], None


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                    deterministic=False, return_attn_probs=False):
    return FlashAttnFunc.apply(q, k, v, dropout_p)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False,
                           window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False,
                           block_table=None):
    raise AssertionError("sequences of different lengths are not replayed")


def stand_in():
    module = types.ModuleType("flash_attn")
    module.__spec__ = importlib.machinery.ModuleSpec("flash_attn", None)
    module.flash_attn_func = flash_attn_func
    module.flash_attn_varlen_func = flash_attn_varlen_func
    module.flash_attn_with_kvcache = None
    padding = types.ModuleType("flash_attn.bert_padding")
    padding.pad_input = padding.unpad_input = None
    sys.modules.update({"flash_attn": module, "flash_attn.bert_padding": padding})
    utils.is_flash_attn_2_available = lambda: True
    every = torch.Tensor.all

    def all_of_a_mask(self, *a, **k):
        found = every(self, *a, **k)
        # Memory that nobody wrote reads as zeros: a mask of ones is answered as such.
        return True if sys._getframe(1).f_code.co_name == "flash_attention_mask" else found

    torch.Tensor.all = all_of_a_mask
    PreTrainedModel._flash_attn_can_dispatch = lambda self, *a, **k: True


def run(spec):
    spec["attn"] = "flash_attention_2"
    result = hf_one.main(spec)
    each_run.keep(spec, result)


def main():
    torch.set_num_threads(1)
    stand_in()
    each_run.each(sys.argv[1], run)


if __name__ == "__main__":
    main()
