"""Validates fixtures against fixtures/schema.json: validate.py SCHEMA FILE ...   The part of JSON Schema that the schema uses."""
import json
import re
import sys

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


with open(sys.argv[1]) as f:
    schema = json.load(f)
bad = 0
for name in sys.argv[2:]:
    with open(name) as f:
        fixture = json.load(f)
    for problem in problems(fixture, schema, schema):
        print(f"{name}: {problem}")
        bad += 1
    host = fixture.get("host", {})
    if host and host["unexplained"] != host["peak_rss"] - host["baseline_rss"] - host["segments_touched"]:
        print(f"{name}: unexplained does not add up")
        bad += 1
print(f"{len(sys.argv) - 2} fixtures, {bad} problems")
sys.exit(1 if bad or len(sys.argv) < 3 else 0)
