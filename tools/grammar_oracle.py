#!/usr/bin/env python3
"""Random outputs of 200 JSON Schemas of differing kinds, validated with the jsonschema package.

  grammar_oracle.py --tool build/bin/grammar_tool [--schemas 200] [--samples 5] [--seed 1] [--show]

Every finished output must be valid; outputs that were stopped by length are counted. Exit status 1 on any failure.
Keywords that the tool reports as not enforced are left out of the schema before validation.
"""
import argparse
import json
import random
import subprocess
import sys

import jsonschema


class Maker:
    """Random schemas. Bounds never contradict each other."""

    def __init__(self, rng):
        self.rng = rng
        self.defs = {}

    def pick(self, *options):
        return self.rng.choice(options)

    def name(self):
        return self.pick("id", "name", "a b", 'q"uote', "\u00e9t\u00e9", "type", "x/y", "t~n", "k", "value", "_", "n\nl") + self.pick(
            "", "1", "2", "3", "_x")

    def string(self):
        kind = self.rng.randrange(7)
        low = self.rng.randrange(8)
        if kind == 0:
            return {"type": "string"}
        if kind == 1:
            return {"type": "string", "minLength": low}
        if kind == 2:
            return {"type": "string", "minLength": low, "maxLength": low + self.rng.choice([0, 1, 5, 40, 6000])}
        if kind == 3:
            return {"type": "string", "pattern": self.pick(
                r"\d{3}-\d{4}", r"\S", "^[a-z_]+$", r"^\w{2,5}$", "^(foo|ba[rz])+$", r"[^\s\"]", r"^[\u00e0-\u00ff]{3}$", "a|^b|c$",
                r"^x{10,200}$", r"^([a-f]{2,60}-){2,30}z$", r"\\[nt]", "^$", r"^[\n\t\\\"]{2}$", ".")}
        if kind == 4:
            return {"type": "string", "pattern": self.pick("^[a-z]+$", r"\d", "^(ab|c)*$", "[xyz]{2}"), "minLength": 3, "maxLength": self.pick(4, 9, 30)}
        if kind == 5:
            return {"type": "string", "format": self.pick("date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "uri")}
        return {"enum": self.rng.sample(["red", "gr\u00fcn", 'b"lue', "a\\b", "", "new\nline", "\U0001F994"], 3)}

    def number(self):
        low = self.pick(-1000, -17, -1, 0, 3, 99)
        width = self.pick(0, 1, 9, 250, 12345)
        kind = self.rng.randrange(8)
        if kind == 0:
            return {"type": self.pick("integer", "number")}
        if kind == 1:
            return {"type": self.pick("integer", "number"), "minimum": low, "maximum": low + width}
        if kind == 2:
            return {"type": self.pick("integer", "number"), "exclusiveMinimum": low}
        if kind == 3:
            return {"type": self.pick("integer", "number"), "maximum": low}
        if kind == 4:
            return {"type": "number", "minimum": low + 0.25, "exclusiveMaximum": low + 0.75 + width}
        if kind == 5:
            return {"type": "integer", "multipleOf": self.pick(2, 5, 7, 60), "minimum": low}
        if kind == 6:
            return {"type": "integer", "minimum": low - 0.5, "exclusiveMaximum": low + width + 1.5}
        return {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": self.pick(0.5, 1, 1e-3)}

    def object(self, depth):
        names = sorted({self.name() for _ in range(self.rng.randrange(5))})
        self.rng.shuffle(names)
        schema = {"type": "object", "properties": {n: self.any(depth + 1) for n in names}}
        required = [n for n in names if self.rng.random() < 0.5]
        if required:
            schema["required"] = required
        kind = self.rng.randrange(6)
        if kind == 0:
            schema["additionalProperties"] = False
        elif kind == 1:
            schema["additionalProperties"] = self.any(depth + 2)
        elif kind == 2:
            schema["patternProperties"] = {"^p_[a-z]+$": self.number()}
        elif kind == 3 and names:
            schema["minProperties"] = self.rng.randrange(len(names) + 1)
            schema["maxProperties"] = max(len(required), schema["minProperties"], 1)
        elif kind == 4:
            schema["additionalProperties"] = self.string()
            schema["maxProperties"] = len(names) + 2
        return schema

    def array(self, depth):
        low = self.rng.randrange(4)
        kind = self.rng.randrange(5)
        if kind == 0:
            return {"type": "array", "items": self.any(depth + 1)}
        if kind == 1:
            return {"type": "array", "items": self.any(depth + 1), "minItems": low, "maxItems": low + self.pick(0, 2, 1000)}
        if kind == 2:
            return {"type": "array", "prefixItems": [self.any(depth + 1) for _ in range(3)], "items": self.pick(False, {"type": "null"}),
                    "minItems": low if low < 4 else 3}
        if kind == 3:
            return {"type": "array", "items": self.string(), "uniqueItems": True, "maxItems": 5}
        return {"type": "array", "contains": {"type": "null"}, "maxItems": 4}

    def combination(self, depth):
        kind = self.rng.randrange(6)
        if kind == 0:
            return {"anyOf": [self.any(depth + 1) for _ in range(3)]}
        if kind == 1:
            return {"oneOf": [{"type": "string", "minLength": 1}, {"type": "integer"}, {"type": "null"}]}
        if kind == 2:
            return {"allOf": [self.object(depth + 1), {"type": "object", "properties": {"extra": self.number()}}]}
        if kind == 3:
            return {"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": -10}, {"const": 3}]}
        if kind == 4:
            return {"type": ["string", "null", "boolean"], "maxLength": 4}
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": k}, "v": self.scalar()}, "required": ["kind", "v"],
                           "additionalProperties": False} for k in ("a", "b", "c")]}

    def reference(self, depth):
        key = self.pick("node", "a/b", "c~d", "\u00e9", "list")
        if key not in self.defs:
            self.defs[key] = None  # names it while it is being made
            ref = {"$ref": self.pointer(key)}
            self.defs[key] = self.pick(
                {"type": "object", "properties": {"v": self.number(), "next": {"anyOf": [{"type": "null"}, ref]}}, "required": ["v"],
                 "additionalProperties": False},
                {"type": "array", "items": ref, "maxItems": 3},
                {"enum": ["calm", "storm", 7, None]},
                {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"l": ref, "r": ref}, "additionalProperties": False}]})
        return {"$ref": self.pointer(key)}

    @staticmethod
    def pointer(key):
        return "#/$defs/" + key.replace("~", "~0").replace("/", "~1")

    def scalar(self):
        return self.pick(self.string, self.number)() if self.rng.random() < 0.8 else self.pick(
            {"type": "boolean"}, {"type": "null"}, {"const": [1, {"a": "b"}]}, {"enum": [1, "1", None, 2.5]})

    def any(self, depth):
        if depth >= 3:
            return self.scalar()
        kind = self.rng.randrange(10)
        if kind < 4:
            return self.scalar()
        if kind < 6:
            return self.object(depth)
        if kind < 7:
            return self.array(depth)
        if kind < 8:
            return self.combination(depth)
        if kind < 9:
            return self.reference(depth)
        return self.pick({}, True, {"type": "object"}, {"type": "array"})

    def root(self, index):
        makers = [self.object, self.array, self.combination, self.reference, lambda _: self.string(), lambda _: self.number(), self.any]
        schema = makers[index % len(makers)](0)
        if not isinstance(schema, dict):
            schema = {}
        if self.defs:
            schema = {**schema, "$defs": self.defs}
        return schema


def without(schema, keywords):
    """The schema without keywords that are not enforced (names of properties are kept)."""
    if isinstance(schema, list):
        return [without(s, keywords) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if key in keywords:
            continue
        maps = key in ("properties", "patternProperties", "$defs")
        out[key] = {k: without(v, keywords) for k, v in value.items()} if maps else value if key in ("enum", "const") else without(value, keywords)
    return out


# Noted, yet what is made is valid: the note says that less is made, or that disjointness is not proved.
VALID_ANYWAY = {"oneOf", "additionalProperties", "patternProperties", "minProperties"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print schemas and outputs")
    args = parser.parse_args()

    rng = random.Random(args.seed)
    schemas = [Maker(rng).root(i) for i in range(args.schemas)]
    text = "".join(json.dumps(s) + "\n" for s in schemas)
    lines = subprocess.run([args.tool, str(args.samples), str(args.seed)], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
    results = [json.loads(line) for line in lines.decode().split("\n")[:-1]]  # not splitlines(): texts hold U+2028
    assert len(results) == len(schemas)

    failures = n_valid = n_cut = 0
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    for schema, result in zip(schemas, results):
        if args.show:
            print(json.dumps(schema), json.dumps(result, ensure_ascii=False), sep="\n")
        if "error" in result:
            failures += 1
            print("refused:", json.dumps(schema), result["error"])
            continue
        dropped = {n["keyword"] for n in result["notes"]} - VALID_ANYWAY
        validator = jsonschema.Draft202012Validator(without(schema, dropped), format_checker=checker)
        for one in result["samples"]:
            if not one["finished"]:
                n_cut += 1
                continue
            try:
                validator.validate(json.loads(one["text"]))
                n_valid += 1
            except (ValueError, jsonschema.ValidationError) as error:
                failures += 1
                print("INVALID:", json.dumps(schema), one["text"], str(error).splitlines()[0], sep="\n  ")
    print(f"{len(schemas)} schemas, {n_valid} outputs valid, {n_cut} stopped by length, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
