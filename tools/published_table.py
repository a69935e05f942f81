#!/usr/bin/env python3
"""Writes the core's table of the measured article's readings from the fixture that holds them.

The core reads no files, so what it needs of fixtures/published/gpt2-a40.json is compiled in.
    tools/published_table.py            write estimator/src/analysis/published_table.inc
    tools/published_table.py --check    exit 1 if that file is not what would be written
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURE = ROOT / "fixtures/published/gpt2-a40.json"
TABLE = ROOT / "estimator/src/analysis/published_table.inc"
ELEMENT = {"float32": 4, "bool": 1}


def table(doc):
    rows = {row["id"]: row for row in doc["figures"] + doc["other"]}
    model, run = doc["model"], doc["run"]

    def printed(row):
        return f'{row["digits_printed"]} {row["unit_printed"]}'

    def reading(field, key, times=1):
        row = rows[key]
        note = printed(row) + (f" x {times}" if times != 1 else "")
        return f'    .{field} = {row["bytes"] * times}u,  // {note}'

    out = ["// Written by tools/published_table.py from fixtures/published/gpt2-a40.json; do not edit.", "// clang-format off"]
    out += ["MeasuredReadings{"]
    out += [f"    .{key} = {model[key]}," for key in ("vocab_size", "n_positions", "n_embd", "n_head", "n_layer")]
    out += [f'    .parameters = {model["parameters"]}u,', f'    .batch = {run["batch"]},', f'    .seq_len = {run["seq_len"]},']
    out += [reading("weights", "weights"), reading("optimizer_state", "adam_state"), reading("causal_masks", "causal_masks")]
    out += [reading("workspaces", "workspace", rows["workspace"]["count"]), reading("step_start", "step2_start")]
    out += ["    .block = {"]
    for line in doc["block"]:
        shape = ", ".join(map(str, line["shape"]))
        out += [f'        {{"{line["tensor"]}", {line["count"]}, {{{shape}}}, {ELEMENT[line["dtype"]]}, {line["bytes"]}u}},  // {printed(line)}']
    out += ["    },", reading("outside_blocks", "outside_blocks"), reading("activations", "activations")]
    out += [reading("logits", "peak_request"), reading("peak", "step2_peak")]
    free = doc["budget"]["free_at_start"]
    out += [f'    .free = {free["bytes"]}u,  // {printed(free)}', "    .sweep = {"]
    for key in rows:
        if key.startswith("batch") and key.endswith("_allocated"):
            allocated, reserved = rows[key], rows[key.replace("_allocated", "_reserved")]
            out += [f'        {{{allocated["batch"]}, {allocated["bytes"]}u, {reserved["bytes"]}u}},  // {printed(allocated)}, {printed(reserved)}']
    out += ["    },", "}", "// clang-format on"]
    return "\n".join(out) + "\n"


def main():
    text = table(json.loads(FIXTURE.read_text(encoding="utf-8")))
    if "--check" in sys.argv[1:]:
        if TABLE.read_text(encoding="utf-8") != text:
            sys.exit(f"{TABLE.relative_to(ROOT)} is stale: run tools/published_table.py")
        return
    TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
