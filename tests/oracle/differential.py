#!/usr/bin/env python3
"""Draws training runs at random and holds whatfits against PyTorch itself, counter by counter.

    differential.py draw 100 --seed 7 > cases.jsonl         requests, a line each
    ORACLE fork_cases.py < cases.jsonl > truth.jsonl        PyTorch 2.6.0 on a virtual CUDA device answers (see below)
    differential.py compare truth.jsonl ...                 every counter, verdict, failing step and phase, message, retries

Needs the oracle (PyTorch on a CUDA device that is not there), and is no part of the tests. Its answers to the odder cases are
fixtures/torch/gpt2-from-scratch-odd.jsonl. `fork_cases.py` is this file as well: with the argument `answer`, inside the oracle, it
runs scratch_truth.py for each line in a process of its own, forked before the device is touched, so that each case has a new context,
allocator and workspaces.
"""
import argparse
import io
import json
import os
import random
import re
import subprocess
import sys

CARDS = {
    "a40": ("NVIDIA A40", "8.6", 84, 46068, 45440),
    "4090": ("NVIDIA GeForce RTX 4090", "8.9", 128, 24217, 23777),
    "a100": ("NVIDIA A100-SXM4-80GB", "8.0", 108, 81051, 80571),
    "h100": ("NVIDIA H100 80GB HBM3", "9.0", 132, 81079, 80566),
    "t4": ("Tesla T4", "7.5", 40, 15102, 14999),
    "p100": ("Tesla P100-PCIE-16GB", "6.0", 56, 16276, 15900),
    "v100": ("Tesla V100-SXM2-32GB", "7.0", 80, 32494, 32050),
    "5090": ("NVIDIA GeForce RTX 5090", "12.0", 170, 32111, 31600),
}
PRECISIONS = ("fp32", "bf16", "amp-bf16", "amp-fp16")
ATTENTIONS = ("eager", "sdpa", "sdpa-math", "sdpa-efficient", "sdpa-flash")
OPTIMIZERS = ("adamw", "adamw-fused", "adamw-for-loop", "sgd", "sgd-momentum")


def estimate(binary, request):
    p = subprocess.run([binary, "estimate", "-", "--json"], input=json.dumps(request), capture_output=True, text=True, timeout=120)
    return (json.loads(p.stdout), None) if p.returncode in (0, 1) else (None, p.stderr.strip())


# ---- draw --------------------------------------------------------------------------------------------------------------------------


def draw(r, binary, small=False):
    """One request. Sizes are kept to what the host can make: parameters of a model are real memory there."""
    while True:
        head = r.choice((1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 33, 40, 48, 64, 64, 64, 72, 80, 96, 100, 128, 128, 160, 192, 256, 264))
        heads = r.choice((1, 1, 2, 3, 4, 6, 8, 12, 16, 20))
        model = {
            "model_type": "gpt2-from-scratch",
            "n_layer": r.randint(1, 2 if small else 5),
            "n_head": heads,
            "n_embd": heads * head,
            "vocab_size": r.choice((2, 3, 17, 97, 128, 257, 1000, 1024, 4099, 8192, 32003, 50257, 50304, 99991, 128256, 199999,
                                    r.randint(2, 70000))),
            "n_positions": r.choice((1, 2, 3, 7, 8, 31, 33, 64, 100, 127, 128, 129, 256, 500, 511, 512, 513, 777, 1000, 1023, 1024,
                                     1024, 1025, 1536, 2048, 3000)),
        }
        weights = model["vocab_size"] * model["n_embd"] + model["n_layer"] * (12 * model["n_embd"] ** 2 + model["n_positions"] ** 2)
        if weights > (2e7 if small else 8e7):
            continue
        if r.random() < 0.04:
            model["n_head"] = model["n_embd"] if model["n_embd"] <= 64 else 1
        T = model["n_positions"]
        T = r.choice((T, T, T, r.randint(1, T), r.randint(1, T), max(1, T - 1), max(1, T // 2), 1))
        B = r.choice((1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 31, 64, 100, r.randint(1, 200)))
        if B * T * model["vocab_size"] > 1e10 or B * T * T * model["n_head"] > 1e10 or B * T > 300000:
            continue
        request = {
            "model": model,
            "batch": B,
            "seq_len": T,
            "precision": r.choice(PRECISIONS),
            "attention": r.choice(ATTENTIONS),
            "optimizer": r.choice(OPTIMIZERS),
            "checkpointing": r.choice(("none", "none", "full")),
            "grad_accumulation": r.choice((1, 1, 1, 2, 3, 5)),
            "clip_grad_norm": r.random() < 0.4,
            "zero_grad": r.choice(("set-to-none", "set-to-none", "zero-fill")),
            "steps": r.choice((1, 2, 3, 3, 3, 4, 6)),
            "allocator": {"expandable_segments": r.random() < 0.3},
            "script": {"warmup_matmul": r.choice((0, 1, 8, 8, 512))},
        }
        name, capability, sms, total, free = CARDS[r.choice(list(CARDS))]
        request["device"] = {"name": name, "total_mib": total, "free_mib": free, "compute_capability": capability, "sm_count": sms}
        if r.random() < 0.6:  # a card on which it is tight: retries and failures wherever the run grows
            roomy = {**request, "device": {**request["device"], "total_mib": 2**24, "free_mib": 2**23}}
            report, _ = estimate(binary, roomy)
            if report is None and r.random() < 0.9:
                continue  # PyTorch's refusals are known; a few are drawn to hold them against ours
            if report:
                low, high = report["after_model"]["reserved"], report["peak"]["reserved"]
                free = r.choice((r.uniform(0.85, 1.02) * high, r.uniform(0.85, 1.02) * high, r.uniform(low, high), r.uniform(0, high),
                                 r.uniform(0.9, 1.8) * low))
                request["device"]["free_mib"] = max(3, int(free) >> 20)
                request["device"]["total_mib"] = request["device"]["free_mib"] + r.choice((440, 500, 628))
        return request


# ---- answer, inside the oracle -----------------------------------------------------------------------------------------------------


def answer():
    os.environ.setdefault("TORCH_SYMBOLIZE_MODE", "dladdr")  # before torch is imported: names for the frames of a trace
    import runpy
    import traceback

    import torch
    import torch._dynamo  # what an optimizer imports: seconds, once instead of in each case
    import torch.nn.attention
    import torch.utils.checkpoint

    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))

    def one(case):
        request = case["request"]
        device = request["device"]
        os.environ.update(FAKECUDA_NAME=device["name"], FAKECUDA_CC=device["compute_capability"], FAKECUDA_SMS=str(device["sm_count"]),
                          FAKECUDA_TOTAL_MIB=str(device["total_mib"]), FAKECUDA_FREE_MIB=str(device["free_mib"]))
        if request.get("allocator", {}).get("expandable_segments"):
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        sys.argv = ["scratch_truth.py", "-"] + ([f"/oracle/data/{case['trace']}"] if case.get("trace") else [])
        sys.stdin = io.StringIO(json.dumps(request))
        out, sys.stdout = sys.stdout, io.StringIO()
        sys.path.insert(0, here)
        try:
            runpy.run_path(f"{here}/scratch_truth.py", run_name="__main__")
            row = {**case, "truth": json.loads(sys.stdout.getvalue())["truth"]}
        except Exception as e:
            row = {**case, "error": f"{type(e).__name__}: {e}", "where": traceback.format_exc()[-1500:]}
        out.write(json.dumps(row) + "\n")
        out.flush()

    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            one(json.loads(line))
            os._exit(0)
        os.waitpid(pid, 0)


# ---- compare -----------------------------------------------------------------------------------------------------------------------


def counters(d):
    out = {}
    for key in ("after_warmup", "after_model", "after_optimizer"):
        for kind, value in (d.get(key) or {}).items():
            out[f"{key}.{kind}"] = value
    for i, step in enumerate(d.get("steps") or []):
        for key, pair in step.items():
            for kind, value in (pair or {}).items():
                out[f"step {i + 1}.{key}.{kind}"] = value
    oom = d.get("oom") or {}
    for kind, value in (oom.get("peak") or {}).items():
        out[f"oom.peak.{kind}"] = value
    return out


# scratch_truth.py tells fewer phases apart: it calls all that precedes step 1 the model, and clipping a part of the optimizer's step.
PHASES = {"warmup": "model", "optimizer": "model", "clip": "optimizer_step", "zero_grad": "optimizer_step"}


def differences(case, report, refusal):
    if "truth" not in case:
        return [] if refusal else [f"PyTorch refuses it: {case['error'][:200]}"]
    if refusal:
        # Memory ran out before PyTorch came to what it would have refused.
        return [] if case["truth"]["verdict"] == "oom" and "is not allowed" in refusal else [f"refused: {refusal[:200]}"]
    truth, found = case["truth"], []
    for key in ("verdict", "alloc_retries"):
        if truth[key] != report[key]:
            found.append(f"{key} {report[key]} instead of {truth[key]}")
    want, have = counters(truth), counters(report)
    for key in {**want, **have}:
        if want.get(key) != have.get(key):
            found.append(f"{key} {have.get(key)} instead of {want.get(key)} ({(have.get(key) or 0) - (want.get(key) or 0):+d})")
    if truth["verdict"] == report["verdict"] == "oom":
        ours, theirs = report["oom"], truth["oom"]
        if ours["step"] != theirs["step"] or PHASES.get(ours["phase"], ours["phase"]) != theirs["phase"]:
            found.append(f"fails in step {ours['step']} {ours['phase']} instead of {theirs['step']} {theirs['phase']}")
        # A handle or message of ours may go on; the sentence with the amounts is PyTorch's.
        if not ours["message"].startswith(re.sub(r"\.$", "", theirs["message"])):
            found.append(f"message: {ours['message']!r} instead of {theirs['message']!r}")
    return found


def compare(args):
    n = wrong = refused = 0
    for name in args.files:
        for line in open(name):
            case = json.loads(line.strip("\0\n"))
            n += 1
            try:
                report, refusal = estimate(args.bin, case["request"])
            except Exception as e:
                report, refusal = None, f"{type(e).__name__}: {e}"
            found = differences(case, report, refusal)
            refused += "truth" not in case
            if found:
                wrong += 1
                print(f"{case.get('id')}: {'; '.join(found[:args.show])}{f' and {len(found) - args.show} more' if len(found) > args.show else ''}")
                if args.requests:
                    print("   ", json.dumps(case["request"]))
    print(f"{n} cases ({refused} that PyTorch refuses): {n - wrong} agree in everything, {wrong} do not")
    sys.exit(1 if wrong else 0)


def main():
    if sys.argv[1:] == ["answer"]:
        return answer()
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--bin", default="build/release/whatfits")
    sub = p.add_subparsers(dest="what", required=True)
    d = sub.add_parser("draw")
    d.add_argument("count", type=int)
    d.add_argument("--seed", type=int, default=1)
    d.add_argument("--small", action="store_true")
    c = sub.add_parser("compare")
    c.add_argument("files", nargs="+")
    c.add_argument("--show", type=int, default=4)
    c.add_argument("--requests", action="store_true")
    args = p.parse_args()
    if args.what == "compare":
        return compare(args)
    r = random.Random(args.seed)
    for i in range(args.count):
        print(json.dumps({"id": f"{args.seed}-{i}", "request": draw(r, args.bin, args.small)}))


if __name__ == "__main__":
    main()
