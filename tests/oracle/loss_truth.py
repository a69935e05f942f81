#!/usr/bin/env python3
"""Trains Transformers' models with a loss that has the head in it, on the virtual device, and records the memory counters.

    loss_truth.py SPECS.jsonl            a run a line, in the words of the oracle's hf_one.py and these:
        "floss": "chunked"               head and loss of a part of the tokens at a time, each part under a checkpoint; "chunks": how many
        "floss": "fused-linear"          Liger Kernel's LigerFusedLinearCrossEntropyFunction
    hf_differential.py compare SPECS.jsonl --runs DATA/runs      holds whatfits to the answers
    hf_differential.py rows RUN.json ...                         makes fixtures of them

Runs inside the oracle, copied with each_run.py beside its scripts; it is no part of the tests. Liger's needs its published
liger_kernel/ops/fused_linear_cross_entropy.py there, with its Triton kernels replaced by functions that do nothing.
"""
import sys
import types

import torch
import torch.nn.functional as F
import transformers.models.auto.modeling_auto  # once, ahead of all children
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM  # noqa: F401
from transformers.modeling_outputs import CausalLMOutputWithPast

import each_run
import hf_one


def shifted(labels):
    return F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous().view(-1)


def chunked_forward(head, chunks):
    def part_of_loss(h, y):
        return F.cross_entropy(head(h).float(), y, reduction="sum")

    def loss_of(hidden, labels):
        total = 0.0
        for h, y in zip(hidden.view(-1, hidden.size(-1)).chunk(chunks), shifted(labels).chunk(chunks)):
            total = total + checkpoint(part_of_loss, h, y, use_reentrant=False)
        return total / (labels.size(0) * (labels.size(1) - 1))

    def forward(self, input_ids, labels, attention_mask=None):
        outputs = self.base_model(input_ids=input_ids, attention_mask=attention_mask)
        hidden = outputs[0]
        return CausalLMOutputWithPast(loss=loss_of(hidden, labels), past_key_values=outputs.past_key_values)

    return forward


def fused_linear_forward(head):
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction as Fused

    def loss_of(hidden, weight, labels):
        labels = F.pad(labels, (0, 1), value=-100)  # all of it stays until this returns
        wanted = labels[..., 1:].contiguous()
        hidden = hidden.view(-1, hidden.size(-1))
        wanted = wanted.view(-1)
        return Fused.apply(hidden, weight, wanted)[0]

    def forward(self, input_ids, labels, attention_mask=None):
        outputs = self.base_model(input_ids=input_ids, attention_mask=attention_mask)
        hidden = outputs[0]
        kept = hidden[:, slice(0, None), :]
        return CausalLMOutputWithPast(loss=loss_of(kept, head.weight, labels), past_key_values=outputs.past_key_values)

    return forward


def run(spec):
    kind, chunks = spec.pop("floss"), spec.pop("chunks", 8)
    to_cuda = hf_one.to_cuda

    def then_replace(model):
        to_cuda(model)
        head = model.get_output_embeddings()
        forward = chunked_forward(head, chunks) if kind == "chunked" else fused_linear_forward(head)
        model.forward = types.MethodType(forward, model)

    hf_one.to_cuda = then_replace
    result = hf_one.main(spec)
    result["switches"].update(floss=kind, chunks=chunks)
    each_run.keep(spec, result)


def main():
    torch.set_num_threads(1)
    each_run.each(sys.argv[1], run)


if __name__ == "__main__":
    main()
