"""Mutated bodies against every endpoint of `tokamak serve`, for a given time; best with a sanitizer build and the model of
server_tiny_model.py. Several connections work at once and are kept open as long as the server keeps them.

A finding: the process ends, a sanitizer speaks, a status that is none of the documented ones (500 is a finding), an error without a
message in the dialect of its endpoint, an answer that is no JSON.
Usage: server_fuzz.py MODEL [--tokamak PROGRAM] [--seconds N] [--seed N]
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import sys
import tempfile
import time

import server_requests as requests
import server_support as support
from server_soak import FINDING, FINE, SANITIZERS


class Fuzz:
    def __init__(self, port, args):
        self.port, self.args = port, args
        self.table, self.names, _ = requests.reference(args.tokamak)
        self.counts = collections.defaultdict(collections.Counter)
        self.findings = []
        self.end = time.monotonic() + args.seconds

    def find(self, what):
        self.findings.append(what)
        if len(self.findings) <= 20:
            print("FINDING:", what[:1200], flush=True)
        if "Refused" in what:
            self.end = 0

    def judge(self, path, data, answer):
        self.counts[path.split("?")[0]][answer.status] += 1
        detail = f"{path} {data[:600]!r}"
        if answer.error:
            if answer.error != "hung up" and not answer.error.startswith("TimeoutError"):
                self.find(f"{answer.error}: {detail}")
            return
        if answer.status not in FINE:
            self.find(f"status {answer.status} {answer.body[:300]!r}: {detail}")
        if answer.events or not answer.body or path.startswith(("/metrics", "/page", "/favicon")) or path == "/":
            return
        try:
            body = json.loads(answer.body)
        except ValueError:
            return self.find(f"no JSON {answer.body[:300]!r}: {detail}")
        if answer.status >= 400 and not (isinstance(body.get("error"), dict) and body["error"].get("message")):
            self.find(f"no error message in {answer.body[:300]!r}: {detail}")

    async def worker(self, index):
        numbers = support.seeded(self.args.seed, "fuzz", index)
        while time.monotonic() < self.end:
            method, path = numbers.choice([e for e in self.table if e[0] == "POST"] * 5 + self.table)
            path = requests.concrete(path, numbers)
            data = requests.mutate(requests.body_of(path, numbers, 3), numbers, self.names)
            if method == "GET" and numbers.random() < 0.7:
                data = b""
            # An answer without end is no finding: it is left after some events, or after some seconds.
            answer = await support.ask(self.port, path, data, method, seconds=8, on_event=lambda n: n > 6)
            self.judge(path, data, answer)


async def run(fuzz, server):
    await asyncio.gather(*(fuzz.worker(i) for i in range(fuzz.args.workers)))
    health = await support.ask(fuzz.port, "/health", method="GET")
    if health.status != 200:
        fuzz.find(f"the server does not answer any more: {health.error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokamak", default=support.ROOT / "build/asan/bin/tokamak")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix", default="")
    args = parser.parse_args()
    flags = ["-c", "512", "--kv-tokens", "4096", "--parallel", "8", "-n", "16"]
    if requests.reference(args.tokamak)[2]:
        flags += ["--slot-save-path", tempfile.mkdtemp()]
    server = support.tokamak_server(args.tokamak, args.model, *flags, env=SANITIZERS, prefix=args.prefix.split())
    fuzz = Fuzz(server.port, args)
    asyncio.run(run(fuzz, server))
    keep = pathlib.Path(server.log.name + ".kept")
    os.link(server.log.name, keep)
    status = server.stop(120)
    output = keep.read_text(errors="replace")
    keep.unlink()
    if FINDING.search(output) or "ended by an exception" in output or status != 0:
        print(output[-6000:])
    n = sum(sum(c.values()) for c in fuzz.counts.values())
    print(f"{support.machine()}, commit {support.commit()}, {args.seconds:.0f} s, seed {args.seed}: {n} requests, "
          f"{len(fuzz.findings)} findings, exit status {status}, {len(FINDING.findall(output))} sanitizer reports\n\n| path | answers by status |\n|---|---|")
    for path, counts in sorted(fuzz.counts.items()):
        print(f"| `{path}` | {', '.join(f'{s or None}: {k}' for s, k in sorted(counts.items()))} |")
    sys.exit(bool(fuzz.findings) or status != 0 or bool(FINDING.search(output)))


if __name__ == "__main__":
    main()
