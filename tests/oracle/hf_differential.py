#!/usr/bin/env python3
"""Draws training runs of Transformers' models at random and holds whatfits against PyTorch itself, counter by counter.

    hf_differential.py draw 40 --seed 7 > specs.jsonl          runs, a line each, in the words of the oracle's hf_one.py
    ORACLE hf_pool.py specs.jsonl                               real Transformers on real PyTorch answers, one file a run
    hf_differential.py compare specs.jsonl --runs DATA/runs     every counter and verdict
    hf_differential.py rows RUN.json ... >> fixtures/torch/huggingface.jsonl    runs as fixtures

Needs the oracle (PyTorch and Transformers on a CUDA device that is not there), and is no part of the tests. Models keep their published
widths and have one to three layers; batches, lengths and switches are odd on purpose.
"""
import argparse
import json
import os
import random
import re
import subprocess

MODELS = ("gpt2", "gpt2-nodrop", "gpt2-medium", "pythia-160m", "opt-125m", "opt-350m", "tinyllama-1.1b", "llama-3.2-1b", "llama-2-7b",
          "smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b", "mistral-7b", "gemma-2b", "gemma-2-2b", "phi-2", "olmo-1b", "mixtral-small",
          "bloom-560m", "phi-3-mini", "santacoder", "falcon-rw-1b")
OPTIMIZERS = {"adamw": "adamw", "adamw_fused": "adamw-fused", "adamw_loop": "adamw-for-loop", "adam": "adam", "adam_amsgrad": "adam-amsgrad",
              "sgd": "sgd", "sgdm": "sgd-momentum", "sgdm_fused": "sgd-momentum-fused", "adafactor": "adafactor",
              "adafactor_foreach": "adafactor-foreach", "hf_adafactor": "adafactor-transformers", "rmsprop": "rmsprop", "adagrad": "adagrad"}
ATTENTION_LINEARS = ["q_proj", "v_proj"]


def draw(r, number):
    model = r.choice(MODELS)
    s = {
        "id": f"d{number}-{model}", "model": model, "layers": r.randint(1, 3), "B": r.choice((1, 1, 2, 3, 5, 7)),
        "T": r.choice((17, 64, 127, 128, 256, 333, 512, 513, 777, 1024)), "device": r.choice(("a40", "4090", "a100", "h100")),
        "attn": "eager" if model == "bloom-560m" else r.choice(("sdpa", "sdpa", "eager")),
        "precision": r.choice(("fp32", "bf16", "bf16", "amp_bf16", "amp_bf16", "amp_fp16")),
        "gc": r.choice(("none", "none", "nonreentrant", "reentrant")), "opt": r.choice(("adamw", "adamw", *OPTIMIZERS)),
        "accum": r.choice((1, 1, 1, 2, 3)), "clip": r.random() < 0.3, "out": r.choice(("keep", "keep", "loss", "detach")),
        "use_cache": r.choice((None, None, False)), "amask": r.choice(("none", "none", "none", "ones", "padded")),
        "zero": r.choice(("end", "end", "begin")), "set_to_none": r.random() < 0.85, "data": r.choice(("each", "each", "once")),
        "loss": r.choice(("model", "model", "model", "outside", "v4", "v4raw")),
        "alloc_conf": r.choice(("", "", "", "expandable_segments:True")),
    }
    if s["loss"] == "outside":
        s["out"] = "keep"
    if model.startswith(("llama", "tiny", "qwen", "mistral")) and r.random() < 0.25:
        s["lora"] = {"r": r.choice((4, 8, 16)), "targets": ATTENTION_LINEARS}
        s["lora_dropout"] = r.choice((0.0, 0.05))
    return s


def request(run):
    s, d = run["switches"], run["device"]
    q = {
        "model": run["config"], "batch": s["B"], "seq_len": s["T"], "attention": s["attn"].replace("_", "-"), "optimizer": OPTIMIZERS[s["opt"]],
        "precision": {"amp_bf16": "amp-bf16", "amp_fp16": "amp-fp16"}.get(s["precision"], s["precision"]),
        "checkpointing": {"none": "none", "nonreentrant": "full", "reentrant": "full-reentrant", "selective": "selective"}[s["gc"]],
        "grad_accumulation": s["accum"], "clip_grad_norm": s["clip"], "zero_grad": "set-to-none" if s["set_to_none"] else "zero-fill",
        "steps": s["steps"],
        "device": {"name": d["name"], "total_mib": d["total_mib"], "free_mib": d["free_mib"], "compute_capability": d["cc"],
                   "sm_count": d["sms"]},
        "allocator": {"expandable_segments": "expandable" in s["alloc_conf"]},
        "script": {"outputs": {"keep": "keep", "loss": "loss-only", "detach": "loss-detached"}[s["out"]], "attention_mask": s["amask"],
                   "use_cache": s["use_cache"], "zero_grad_at": s["zero"], "loss": {"v4raw": "v4-no-upcast"}.get(s["loss"], s["loss"]),
                   "data": "each-step" if s["data"] == "each" else "once"},
    }
    if s.get("floss"):  # of loss_truth.py
        q["loss"] = s["floss"]
        if s["floss"] == "chunked":
            q["loss_chunks"] = s["chunks"]
    if s.get("freeze"):
        q["trainable"] = "all-but-embeddings" if s["freeze"] == "embed" else s["freeze"].replace("last", "last:")
    if s["lora"]:
        q["lora"] = {"rank": s["lora"]["r"], "targets": s["lora"]["targets"], "dropout": s["lora_dropout"],
                     "adapter_dtype": s["lora_dtype"]}
    return q


NAMES = {"before": "before", "after_forward": "after_forward", "after_backward": "after_backward", "after_step": "after_optimizer_step",
         "after_zero_grad": "after_zero_grad"}


def truth(run):
    """{'1.after_forward': (allocated, reserved)} of a run of hf_one.py; steps from 1, a failed step's own readings too."""
    out = {name: (run["counters"][name], run["counters"]["reserved"][name]) for name in ("after_model", "after_optimizer")
           if name in run["counters"]}
    for i, step in enumerate(run["steps"], 1):
        for theirs, ours in NAMES.items():
            if theirs in step:
                out[f"{i}.{ours}"] = (step[theirs], step["reserved"][theirs])
        if run["verdict"] == "ok" or i < len(run["steps"]):
            out[f"{i}.peak"] = (step["peak_allocated"], step["peak_reserved"])
    return out


PROVENANCE = "PyTorch 2.6.0, Transformers 5.12.1, virtual CUDA device; no kernel ran"
LIGER = "PyTorch 2.6.0, Transformers 5.12.1, Liger Kernel 0.8.2 (its kernels left out), virtual CUDA device; no kernel ran"
PHASES = {"step": "optimizer_step", "batch": "forward"}


def row(run):
    """A run as a line of fixtures/torch/huggingface.jsonl."""
    out = {"verdict": {"ok": "fits", "oom": "oom"}[run["verdict"]], "parameters": run["params"]["unique"]}
    steps = []
    for name, (allocated, reserved) in truth(run).items():
        step, _, key = name.partition(".")
        counters = {"allocated": allocated, "reserved": reserved}
        if not key:
            out[name] = counters
            continue
        while len(steps) < int(step):
            steps.append({})
        steps[int(step) - 1][key] = counters
    out.update(steps=steps, alloc_retries=run["num_alloc_retries"])
    if "oom" in run:
        message = re.sub(r" (Process \d+ has|Including non-PyTorch memory, this process has) .*? in use\.", "", run["oom"]["message"])
        last = run["steps"][-1] if run["steps"] else {}
        out["oom"] = {"step": run["oom"]["step"], "phase": PHASES.get(run["oom"]["phase"], run["oom"]["phase"]),
                      "message": message[:message.index("unallocated.") + len("unallocated.")]}
        if last:
            out["oom"]["peak"] = {"allocated": last["peak_allocated"], "reserved": last["peak_reserved"]}
    return {"id": run["id"], "request": request(run), "truth": out,
            "provenance": LIGER if run["switches"].get("floss") == "fused-linear" else PROVENANCE}


def compare(specs, runs, binary):
    same = different = 0
    for spec in specs:
        path = f"{runs}/{spec['id']}.json"
        if not os.path.exists(path):
            print(f"{spec['id']}: no answer")
            continue
        run = json.load(open(path))
        asked = request(run)
        p = subprocess.run([binary, "estimate", "-", "--json"], input=json.dumps(asked), capture_output=True, text=True)
        if p.returncode not in (0, 1):
            print(f"{spec['id']}: {p.stderr.strip()}")
            continue
        report = json.loads(p.stdout)
        problems = []
        if report["verdict"] != {"ok": "fits", "oom": "oom"}[run["verdict"]]:
            problems.append(f"verdict {report['verdict']}")
        for name, (allocated, reserved) in truth(run).items():
            step, _, key = name.partition(".")
            ours = report[name] if not key else report["steps"][int(step) - 1].get(key) if int(step) <= len(report["steps"]) else None
            if ours != {"allocated": allocated, "reserved": reserved}:
                problems.append(f"{name}: {ours} for {allocated}, {reserved}")
        same, different = same + (not problems), different + bool(problems)
        if problems:
            print(f"{spec['id']}: {json.dumps({k: v for k, v in asked.items() if k != 'model'})}\n    " + "\n    ".join(problems[:4]))
    print(f"{same} runs the same in every counter, {different} not")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    d = commands.add_parser("draw")
    d.add_argument("count", type=int)
    d.add_argument("--seed", type=int, default=1)
    c = commands.add_parser("compare")
    c.add_argument("specs")
    c.add_argument("--runs", required=True)
    c.add_argument("--bin", default="build/release/whatfits")
    w = commands.add_parser("rows")
    w.add_argument("runs", nargs="+")
    a = p.parse_args()
    if a.command == "draw":
        r = random.Random(a.seed)
        for i in range(a.count):
            print(json.dumps(draw(r, i)))
    elif a.command == "rows":
        for path in a.runs:
            print(json.dumps(row(json.load(open(path))), separators=(",", ":")))
    else:
        compare([json.loads(line) for line in open(a.specs) if line.strip()], a.runs, a.bin)


if __name__ == "__main__":
    main()
