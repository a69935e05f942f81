"""Runs of the oracle, each in a process of its own. Copied beside the scripts that import it; no part of the tests."""
import json
import os
import traceback

import hf_one


def each(path, run):
    """Calls run(spec) for every line of the file, on the card that the line names, with its allocator's settings."""
    for line in open(path):
        spec = json.loads(line)
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        name, capability, multiprocessors, total, free = hf_one.DEVICES[spec.get("device", "a40")]
        os.environ.update(FAKECUDA_NAME=name, FAKECUDA_CC=capability, FAKECUDA_SMS=str(multiprocessors), FAKECUDA_TOTAL_MIB=str(total),
                          FAKECUDA_FREE_MIB=str(free))
        if spec.get("alloc_conf"):
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = spec["alloc_conf"]
        try:
            run(spec)
        except BaseException:
            print("FAILED", spec["id"], traceback.format_exc()[-1500:], flush=True)
        os._exit(0)


def keep(spec, result):
    with open(f"/oracle/data/runs/{spec['id']}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(result["id"], result["verdict"], result["peak_allocated"], result["peak_reserved"], flush=True)
