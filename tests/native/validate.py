"""Validates fixtures against fixtures/schema.json, by the part of JSON Schema that it uses: validate.py SCHEMA FILE_OR_FOLDER ...

With --run BINARY instead of files it validates what a small run and one that does not fit write.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

TINY = {"model": {"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 48, "n_head": 3, "vocab_size": 211, "n_positions": 24}, "batch": 3, "seq_len": 24, "steps": 2}
TIGHT = dict(TINY, device={"name": "tight", "total_mib": 64, "free_mib": 23, "compute_capability": "8.6", "sm_count": 84})

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def problems(value, schema, root, at="$"):
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].split("/")[-1]]
    unknown = set(schema) - {"$schema", "$defs", "title", "description", "type", "const", "enum", "oneOf", "pattern", "minimum", "items",
                             "properties", "required", "additionalProperties"}
    assert not unknown, f"this validator does not know {unknown}"
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_type(value, n) for n in names):
            return [f"{at}: {value!r} is no {' or '.join(names)}"]
    out = []
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        out.append(f"{at}: {value!r} is not allowed")
    if "oneOf" in schema and sum(not problems(value, s, root, at) for s in schema["oneOf"]) != 1:
        out.append(f"{at}: fits not exactly one form")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        out.append(f"{at}: {value!r} does not match {schema['pattern']}")
    if "minimum" in schema and value < schema["minimum"]:
        out.append(f"{at}: {value} is below {schema['minimum']}")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            out += problems(item, schema["items"], root, f"{at}[{i}]")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        out += [f"{at}.{key}: missing" for key in schema.get("required", []) if key not in value]
        extra = schema.get("additionalProperties", True)
        for key, item in value.items():
            if key in known:
                out += problems(item, known[key], root, f"{at}.{key}")
            elif extra is False:
                out.append(f"{at}.{key}: unknown key")
            elif isinstance(extra, dict):
                out += problems(item, extra, root, f"{at}.{key}")
    return out


def run(binary, folder):
    for name, request, status in (("tiny", TINY, 0), ("tight", TIGHT, 1)):
        path = os.path.join(folder, name + ".json")
        p = subprocess.run([binary, "measure", "-", "--on", "cpu", "--fixture", path], input=json.dumps(request), text=True, capture_output=True)
        assert p.returncode == status, f"{name}: exit {p.returncode}: {p.stderr}"
        yield path


def check(schema, names):
    bad = 0
    for name in names:
        with open(name) as f:
            fixture = json.load(f)
        found = problems(fixture, schema, schema)
        host = fixture.get("host", {})
        if host and host["unexplained"] != host["peak_rss"] - host["baseline_rss"] - host["segments_touched"]:
            found.append("host.unexplained does not add up")
        if not fixture.get("equals_prediction"):
            found.append("counters are not the predicted ones")
        for problem in found:
            print(f"{name}: {problem}")
        bad += len(found)
    print(f"{len(names)} fixtures, {bad} problems")
    return bad or not names


with open(sys.argv[1]) as f:
    schema = json.load(f)
if sys.argv[2] == "--run":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(1 if check(schema, list(run(sys.argv[3], folder))) else 0)
names = [n for a in sys.argv[2:] for n in (sorted(glob.glob(os.path.join(a, "*.json"))) if os.path.isdir(a) else [a])]
sys.exit(1 if check(schema, names) else 0)
