#!/usr/bin/env python3
"""Trains one rank of several cards on the virtual device and prints the memory counters as one JSON line.

    parallel_truth.py REQUEST.json [TRACE.json.gz]       ("-" reads the request from standard input)
    parallel_truth.py --many FILE.jsonl OUTPUT.jsonl     a request a line, each in a process of its own: fixture rows

Runs inside the oracle (PyTorch 2.6 on a CUDA device that is not there), copied beside its scripts, from which it takes the model from
scratch and the tracer; it is no part of the tests. Rank 0 of any world size runs alone over PyTorch's fake process group.

ddp: DistributedDataParallel(model, device_ids=[0]) with its defaults, the model moved to the card before. The fake group's work has no
result, so a communication hook answers with the bucket itself; bucket and copies are the reducer's own either way.
fsdp, zero3: fully_shard on each block, then on the model, both on the meta device; then memory for shards and buffers, in the order in
which the model would be moved. zero2: the same with reshard_after_forward=False: gradients and optimizer state in shards, parameters
whole from forward to the end of backward. zero1: DDP with ZeroRedundancyOptimizer, on the rank that its partition gives the most.
tensor: all ranks share each matrix of a Llama: parallelize_module on the meta device, then memory as above; the optimizer gets DTensors
and the rest (norms) as two groups, because its foreach kernels take no mixture. No data parallelism around it.
precision amp-bf16 is MixedPrecisionPolicy(param_dtype=bfloat16, reduce_dtype=float32), not autocast.
"""
import contextlib
import gzip
import json
import os
import sys
import warnings

CARDS = {"FAKECUDA_NAME": "name", "FAKECUDA_CC": "compute_capability", "FAKECUDA_SMS": "sm_count", "FAKECUDA_TOTAL_MIB": "total_mib",
         "FAKECUDA_FREE_MIB": "free_mib"}


def many(source, output):
    """Forks a child for each row, which gets (row, file to append to) and runs it; the parent never touches the device."""
    for line in open(source):
        row = json.loads(line)
        child = os.fork()
        if child == 0:
            device = row["request"].get("device")
            os.environ.update({k: str(device[v]) for k, v in CARDS.items()} if device else {})
            if row["request"].get("allocator", {}).get("expandable_segments"):
                os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
            return row, output
        if os.waitpid(child, 0)[1]:
            print(row["id"], "failed", file=sys.stderr)
    sys.exit(0)


warnings.filterwarnings("ignore")
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

for name in ("kaiming_uniform_", "uniform_", "normal_"):      # values do not matter here, and initialising takes minutes
    setattr(torch.nn.init, name, lambda t, *a, **k: t)

if sys.argv[1] == "--many":
    import transformers.models.auto.modeling_auto  # once, ahead of all children
    row, row_file = many(sys.argv[2], sys.argv[3])
    request, tracing = row["request"], False
else:
    row = None
    request = json.load(sys.stdin if sys.argv[1] == "-" else open(sys.argv[1]))
    tracing = len(sys.argv) > 2
parallel = request["parallel"]
strategy = parallel["strategy"]
spec = request["model"] if isinstance(request["model"], dict) else {"model_type": "gpt2-from-scratch"}
scratch = spec.get("model_type", "gpt2-from-scratch") == "gpt2-from-scratch"
B, T, steps = request["batch"], request["seq_len"], request.get("steps", 3)
precision, micros = request.get("precision", "fp32"), request.get("grad_accumulation", 1)
dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
sharded = strategy in ("fsdp", "zero2", "zero3")
ways = parallel.get("tensor", 1)
amp = None if sharded else {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(precision)
outputs = request.get("script", {}).get("outputs", "keep")
begin = request.get("script", {}).get("zero_grad_at", "end") == "begin"
side = request.get("script", {}).get("warmup_matmul", 8 if scratch else 0)
set_to_none = request.get("zero_grad", "set-to-none") == "set-to-none"
marks = []
if tracing:
    import trace
    trace.start()


def now(mark=None):
    if mark and tracing:
        torch.cuda.memory._snapshot()       # leaves a marker in the event list
        marks.append(mark)
    return {"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()}


def build():
    if scratch:
        from gpt2_from_scratch import GPT2, Config
        return GPT2(Config(vocab=spec.get("vocab_size", 50257), n_ctx=spec.get("n_positions", 1024), n_embd=spec.get("n_embd", 768),
                           n_head=spec.get("n_head", 12), n_layer=spec.get("n_layer", 12),
                           attn="explicit" if request.get("attention", "eager") == "eager" else "sdpa",
                           checkpoint=request.get("checkpointing", "none") == "full"))
    from transformers import AutoConfig, AutoModelForCausalLM, masking_utils
    find = masking_utils.find_packed_sequence_indices

    def no_packed_sequences(position_ids):
        """It reads positions, which are all zeros on this device: answered as of a batch that is not packed, after its allocations."""
        find(position_ids)

    ignore = masking_utils._ignore_causal_mask_sdpa

    def no_padding(padding_mask, *rest, **named):
        """It reads a padding mask, zeros too: answered as of one that is all ones, after its allocations."""
        if padding_mask is not None:
            ignore(padding_mask, *rest, **named)
        return ignore(None, *rest, **named)

    masking_utils.find_packed_sequence_indices = no_packed_sequences
    masking_utils._ignore_causal_mask_sdpa = no_padding
    fields = {k: v for k, v in spec.items() if k not in ("model_type", "dtype")}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(spec["model_type"], **fields), dtype=dtype,
                                             attn_implementation=request.get("attention", "sdpa"))
    use_cache = request.get("script", {}).get("use_cache")
    if use_cache is not None:
        model.config.use_cache = use_cache
    if request.get("checkpointing", "none") == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def to_card(model):
    """Memory on the card for everything, in the order in which the model would be moved, tied weights once."""
    memo, keep = {}, []

    def move(t):
        if id(t) not in memo:
            memo[id(t)] = torch.empty_like(t, device="cuda")
            keep.append(t)
        return memo[id(t)]
    model._apply(move)
    if scratch:
        model.lm_head.weight = model.wte.weight
    else:
        model.tie_weights()
    return model


def blocks_of(model):
    return max((m for m in model.modules() if isinstance(m, torch.nn.ModuleList)), key=len)


def on_meta():
    with torch.device("meta"):
        model = build()
    return model.to(dtype) if dtype != torch.float32 else model


def worst_rank():
    """Where ZeroRedundancyOptimizer's partition puts the most: largest parameters first, each to the rank that has the least so far."""
    if strategy != "zero1":
        return 0
    loads = [0] * parallel["gpus"]
    for size in sorted((p.numel() for p in on_meta().parameters()), reverse=True):
        loads[loads.index(min(loads))] += size
    return loads.index(max(loads))


def cut(model):
    """The plan of a Llama: outputs of attention and MLP are whole on every rank, and so are the logits."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cuda", (parallel["gpus"],))
    plan = {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate()), "lm_head": ColwiseParallel(output_layouts=Replicate())}
    for i in range(len(model.model.layers)):
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
            plan[f"model.layers.{i}.{name}"] = ColwiseParallel()
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            plan[f"model.layers.{i}.{name}"] = RowwiseParallel()
    return parallelize_module(model, mesh, plan)


def make():
    model = on_meta()
    truth["parameters"] = sum(p.numel() for p in model.parameters())
    if ways > 1:
        return to_card(cut(model))
    if sharded:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if precision == "amp-bf16" else MixedPrecisionPolicy()
        for block in blocks_of(model):
            fully_shard(block, mp_policy=policy, reshard_after_forward=strategy != "zero2")
        fully_shard(model, mp_policy=policy, reshard_after_forward=strategy != "zero2")
        return to_card(model)
    from torch.nn.parallel import DistributedDataParallel
    model = DistributedDataParallel(to_card(model), device_ids=[0])

    def answer(state, bucket):
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done
    model.register_comm_hook(None, answer)
    return model


def arithmetic():
    return torch.autocast("cuda", dtype=amp) if amp else contextlib.nullcontext()


def optimizer(name, params):
    O = torch.optim
    kind, options = {"adamw": (O.AdamW, {}), "adamw-fused": (O.AdamW, {"fused": True}), "adamw-for-loop": (O.AdamW, {"foreach": False}),
                     "sgd": (O.SGD, {}), "sgd-momentum": (O.SGD, {"momentum": 0.9})}[name]
    if strategy == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        return ZeroRedundancyOptimizer(params, optimizer_class=kind, lr=1e-4, **options)
    if ways > 1:
        from torch.distributed.tensor import DTensor
        params = list(params)
        params = [{"params": [p for p in params if isinstance(p, DTensor) == is_cut]} for is_cut in (True, False)]
    return kind(params, lr=1e-4, **options)


def update(model, opt, scaler, s, step):
    at["phase"] = "optimizer_step"
    if scaler:
        scaler.unscale_(opt)
    if request.get("clip_grad_norm"):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if scaler:
        scaler.step(opt)
        scaler.update()
    else:
        opt.step()
    s["after_optimizer_step"] = now(f"{step}:optimizer_step")
    if not begin:
        opt.zero_grad(set_to_none=set_to_none)
    s["after_zero_grad"] = now(f"{step}:zero_grad")


def scratch_step(model, opt, scaler, s, step):
    """Its names go when it returns: logits, loss and ids."""
    for micro in range(micros):
        at["phase"] = "forward"
        x = torch.randint(0, spec.get("vocab_size", 50257), (B, T), device="cuda")
        with arithmetic():
            logits, loss = model(x, x)
        if micros > 1:
            loss = loss / micros
        s["after_forward"] = now(f"{step}:forward")
        at["phase"] = "backward"
        (scaler.scale(loss) if scaler else loss).backward()
        s["after_backward"] = now(f"{step}:backward")
    update(model, opt, scaler, s, step)


class Names:
    """What the loop around a Transformers model names at module level, where a name lives until it is bound again."""
    x = out = loss = None


def module_step(model, opt, scaler, s, step):
    n = Names
    if begin:
        opt.zero_grad(set_to_none=set_to_none)
    for micro in range(micros):
        at["phase"] = "forward"
        n.x = torch.randint(0, spec["vocab_size"], (B, T), device="cuda")
        with arithmetic():
            if outputs == "keep":
                n.out = model(input_ids=n.x, labels=n.x)
                n.loss = n.out.loss
            else:
                n.loss = model(input_ids=n.x, labels=n.x).loss
            if micros > 1:
                n.loss = n.loss / micros
        s["after_forward"] = now(f"{step}:forward")
        at["phase"] = "backward"
        (scaler.scale(n.loss) if scaler else n.loss).backward()
        if outputs == "loss-detached":
            n.loss = n.loss.detach()
        s["after_backward"] = now(f"{step}:backward")
    update(model, opt, scaler, s, step)


truth = {"verdict": "fits", "steps": []}
at = {"step": 0, "phase": "model"}
rank = worst_rank()
if rank:
    truth["parallel"] = {"rank": rank}
dist.init_process_group("fake", rank=rank, world_size=parallel["gpus"], store=FakeStore())
torch.cuda.set_device(0)
try:
    if side:
        w = torch.randn(side, side, device="cuda")
        w @ w
        del w
    truth["after_warmup"] = now("0:warmup")
    model = make()
    model.train()
    truth["after_model"] = now("0:model")
    opt = optimizer(request.get("optimizer", "adamw"), model.parameters())
    scaler = torch.amp.GradScaler("cuda") if precision == "amp-fp16" else None
    truth["after_optimizer"] = now("0:optimizer")
    for step in range(1, steps + 1):
        at["step"] = step
        torch.cuda.reset_peak_memory_stats()
        s = {"before": now()}
        truth["steps"].append(s)
        (scratch_step if scratch else module_step)(model, opt, scaler, s, step)
        s["peak"] = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
except torch.cuda.OutOfMemoryError as e:
    truth["verdict"] = "oom"
    truth["oom"] = {**at, "message": str(e).split(" If reserved")[0],
                    "peak": {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}}
truth["alloc_retries"] = torch.cuda.memory_stats()["num_alloc_retries"]
if tracing:
    events = trace.events()
    trace.stop()
    with gzip.open(sys.argv[2], "wt") as f:
        json.dump({"request": request, "truth": truth, "trace": {**trace.compact(events), "marks": marks}}, f, separators=(",", ":"))
if row:
    with open(row_file, "a") as f:
        f.write(json.dumps({"id": row["id"], "request": request, "truth": truth, "provenance": row["provenance"]},
                           separators=(",", ":")) + "\n")
else:
    print(json.dumps({"request": request, "truth": truth}))
