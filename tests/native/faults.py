"""Holds the measuring tool to what it promises when things go wrong: faults.py BINARY [ROUNDS]

BINARY is the command line. A sweep is killed ROUNDS times (default 10) at random moments: no finished
row may be lost, and --resume must complete it. Then the impossible: each must end with status 2 and one line on standard error.
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

binary, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10
REQUEST = json.dumps({"model": {"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 48, "n_head": 3, "vocab_size": 211, "n_positions": 24}, "seq_len": 24, "steps": 2})
failures = []


def check(ok, what):
    print("ok  " if ok else "FAIL", what, flush=True)
    if not ok:
        failures.append(what)


def rows(folder):
    try:
        with open(os.path.join(folder, "rows.jsonl")) as f:
            return [json.loads(line) for line in f.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


def request_file(folder, text):
    path = os.path.join(folder, "request.json")
    with open(path, "w") as f:
        f.write(text)
    return path


def killed_sweeps(folder):
    random.seed(1)
    out = os.path.join(folder, "sweep")
    batches = "1..30"
    command = [binary, "measure", request_file(folder, REQUEST), "--on", "cpu", "--batches", batches, "--out", out, "--resume"]
    finished = set()
    for _ in range(rounds):
        before = len(rows(out))
        p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.time() + 120
        wait_for = before + random.randint(0, 2)
        while len(rows(out)) < wait_for and p.poll() is None and time.time() < limit:
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.05))
        p.send_signal(signal.SIGKILL)
        p.wait()
        now = {row["batch"] for row in rows(out) if row["status"] != "crashed"}
        check(finished <= now, f"after kill -9: {len(now)} rows, none of {len(finished)} lost")
        finished = now
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    done = [row["batch"] for row in rows(out) if row["status"] == "done"]
    check(sorted(done) == list(range(1, 31)) and len(set(done)) == 30, "--resume completes the sweep, each batch once")
    for name in ("sweep.csv", "sweep.svg"):
        check(os.path.getsize(os.path.join(out, name)) > 100, name)


def killed_run(folder):
    out = os.path.join(folder, "killed")
    command = [binary, "measure", request_file(folder, REQUEST), "--on", "cpu", "--steps", "64", "--batches", "40..42", "--out", out]
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = f"/proc/{p.pid}/task/{p.pid}/children"
    victim, limit = "", time.time() + 120
    while not victim and p.poll() is None and time.time() < limit:
        with open(children) as f:
            victim = f.read().split(" ")[0]
    os.kill(int(victim), signal.SIGKILL)
    check(p.wait() == 0, "a sweep goes on when one of its runs is killed")
    found = [(row["batch"], row["status"]) for row in rows(out)]
    check(found == [(40, "crashed"), (41, "done"), (42, "done")], f"and marks the row: {found}")


def refused(what, *flags, request=REQUEST):
    p = subprocess.run([binary, "measure", "-", *flags], input=request, capture_output=True, text=True)
    lines = p.stderr.strip().split("\n")
    progress = [line for line in lines if line.startswith("step ")]
    check(p.returncode == 2 and len(lines) - len(progress) == 1, f"{what}: exit {p.returncode}: {lines[-1][:150]}")
    check(p.stdout == "", f"{what}: nothing on standard output")


with tempfile.TemporaryDirectory() as folder:
    killed_sweeps(folder)
    killed_run(folder)
    path = lambda name: os.path.join(folder, name)
    refused("full disk", "--fixture", "/dev/full")
    refused("missing folder", "--fixture", path("none/fixture.json"))
    refused("unwritable folder", "--out", "/proc/none", "--batches", "1")
    refused("missing data", "--data", path("none.txt"))
    open(path("short.txt"), "w").write("short")
    refused("data too short", "--data", path("short.txt"))
    open(path("half.bin"), "wb").write(b"\1\0\2")
    refused("data cut in a token", "--data", path("half.bin"))
    open(path("large.bin"), "wb").write(b"\xff\xff" * 100)
    refused("token not in the vocabulary", "--data", path("large.bin"))
    open(path("bad.safetensors"), "w").write("nonsense, and more of it")
    refused("broken checkpoint", "--load", path("bad.safetensors"))
    refused("unknown device", "--on", "abacus")
    refused("more memory than there is", "--on", "cpu", request=json.dumps({"model": "gpt2-from-scratch", "batch": 512, "seq_len": 1024, "device": {"name": "huge", "total_mib": 8000000, "free_mib": 8000000, "compute_capability": "8.6", "sm_count": 84}}))
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
