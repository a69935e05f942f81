"""Writes memory snapshots of a two-layer from-scratch GPT-2, each with one slip that people make in a training loop, or with
settings of the allocator.

    plant_faults.py KIND PROTOCOL OUT.pickle

Needs the oracle (PyTorch on a CUDA device that is not there), and is no part of the tests: what it wrote is in
fixtures/torch/snapshots. Runs inside the oracle, beside its gpt2_from_scratch.py. The runs with the names in the oracle's own
snapshots.py (clean, kept-logits, grads-kept, eval-with-graph, two-optimizers, oom) were written by that.
"""
import copy
import os
import pickle
import sys

kind, protocol, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SETTINGS = {
    "rounded-sizes": "roundup_power2_divisions:4,max_split_size_mb:21",
    "rounded-by-size": "expandable_segments:True,roundup_power2_divisions:[1:16,4:2,64:1,256:4,>:8]",
}
if kind in SETTINGS:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[kind]

import torch  # noqa: E402 (reads the settings)

from gpt2_from_scratch import GPT2, Config  # noqa: E402

torch.cuda.memory._record_memory_history(enabled="all", context="all", stacks="python", max_entries=1_000_000)
config = Config(n_layer=2, n_embd=256, n_head=4, vocab=8000, n_ctx=512)
model = GPT2(config).cuda()
optimizer = torch.optim.AdamW(model.parameters())
average = copy.deepcopy(model) if kind == "model-copy" else None
kept = []
if kind == "kept-activations":
    # A hook that collects what a block puts out, and is never taken off.
    block = [m for m in model.modules() if type(m).__name__ == "Block"][0]
    block.register_forward_hook(lambda module, args, result: kept.append(result))
B, T = 8, 512
for step in range(4):
    x = torch.randint(0, config.vocab, (3 * B if kind == "larger-last-batch" and step == 3 else B, T), device="cuda")
    logits, loss = model(x, x)
    if kind == "kept-loss":
        kept.append(loss)
    if kind == "view-of-logits":
        kept.append(logits.detach()[:, -1, :8])
    if kind == "kept-batches":
        kept.append(x)
    loss.backward(retain_graph=kind == "retained-graph")
    if kind == "retained-graph":
        kept.append(loss)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    del logits, loss, x
print(kind, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
with open(out, "wb") as f:
    pickle.dump(torch.cuda.memory._snapshot(), f, protocol=protocol)
