#!/usr/bin/env python3
"""JSON Schemas of differing kinds through a running server, at a temperature that makes a small model stray.

  server_schemas.py --url http://127.0.0.1:8080 [--schemas 200] [--samples 5] [--temperature 1.5] [--max-tokens 400]

Every answer must be valid by the jsonschema package, or have stopped by length (counted). Keywords that the server names
as not enforced (X-Tokamak-Not-Enforced) are left out of the schema before validation. Exit status 1 on any failure.
"""
import argparse
import concurrent.futures
import json
import random
import sys
import urllib.error
import urllib.request

import jsonschema

from grammar_oracle import VALID_ANYWAY, Maker, without


def ask(args, index, schema):
    """The texts and finish reasons of all samples, and the keywords that are not enforced; or an error's text."""
    body = {"messages": [{"role": "user", "content": f"Write JSON, example {index}."}], "temperature": args.temperature, "seed": index,
            "top_k": 0, "top_p": 1, "min_p": 0, "n": args.samples, "max_tokens": args.max_tokens,
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}
    request = urllib.request.Request(args.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=1800) as answer:
            notes = answer.headers.get("X-Tokamak-Not-Enforced", "")
            choices = json.load(answer)["choices"]
    except urllib.error.HTTPError as error:
        return error.read().decode(), set()
    keywords = {note.rsplit(" ", 1)[-1] for note in notes.split(", ") if note}
    return [(c["message"]["content"], c["finish_reason"]) for c in choices], keywords


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--temperature", type=float, default=1.5)
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=6)
    args = parser.parse_args()

    rng = random.Random(args.seed)
    schemas = [Maker(rng).root(i) for i in range(args.schemas)]
    n_valid = n_cut = n_failed = 0
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        for schema, (answers, keywords) in zip(schemas, pool.map(lambda pair: ask(args, *pair), enumerate(schemas))):
            if isinstance(answers, str):
                n_failed += 1
                print("refused:", json.dumps(schema), answers)
                continue
            validator = jsonschema.Draft202012Validator(without(schema, keywords - VALID_ANYWAY), format_checker=checker)
            for text, reason in answers:
                if reason == "length":
                    n_cut += 1
                    continue
                try:
                    validator.validate(json.loads(text))
                    n_valid += 1
                except (ValueError, jsonschema.ValidationError) as error:
                    n_failed += 1
                    print("INVALID:", json.dumps(schema), text, str(error).splitlines()[0], sep="\n  ")
    print(f"{args.schemas} schemas x {args.samples} at temperature {args.temperature}: {n_valid} valid, "
          f"{n_cut} stopped by length, {n_failed} failures")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
