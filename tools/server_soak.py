"""A long run of mixed requests, bad input and clients that hang up; best with a server built with AddressSanitizer.

Watchers ask the same greedy questions over and over: their streams must be what they were before the crowd came. Everything else is
chosen at random (--seed): proper requests for every endpoint of the reference, bodies with wrong values,
bytes that are no HTTP, and clients that leave before, while or after sending, in the queue, during the prompt or the
stream, or stop reading. At the end the server must be idle, and end by SIGTERM with status 0 and without a report of a
sanitizer.
Usage: server_soak.py MODEL [--tokamak PROGRAM] [--minutes N] [--workers N] [--flags "..."]
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import re
import socket
import struct
import sys
import tempfile
import time

import server_requests as requests
import server_support as support

SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:detect_container_overflow=0:exitcode=66:quarantine_size_mb=16:allocator_release_to_os_interval_ms=1000",
              "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=67"}
FINDING = re.compile(r"ERROR: \w+Sanitizer|runtime error:|Sanitizer: (?:CHECK|SEGV)|CHECK failed|terminate called")
# What a server may answer to proper and to broken requests; others are findings.
FINE = {200, 204, 400, 401, 404, 405, 408, 411, 413, 414, 415, 422, 429, 431, 501, 503, 505}


class Soak:
    def __init__(self, port, args):
        self.port, self.args = port, args
        self.counts = collections.Counter()
        self.findings = []
        self.table, self.names, _ = requests.reference(args.tokamak)
        self.end = 0
        self.n_ctx = 0

    def find(self, what):
        self.findings.append(what)
        if len(self.findings) <= 20:
            print("FINDING:", what[:1000], flush=True)
        if "ConnectionRefused" in what:  # nothing is left to talk to
            self.end = 0

    def take(self, kind, answer, detail=""):
        self.counts[f"{kind} {answer.status if answer.status else 'no answer'}"] += 1
        if answer.error == "hung up":
            return
        if answer.error:
            self.find(f"{kind} {detail}: {answer.error}")
        elif answer.status not in FINE:
            self.find(f"{kind} {detail}: status {answer.status} {answer.body[:300]!r}")

    async def proper(self, numbers):
        method, path = numbers.choice(self.table)
        path = requests.concrete(path, numbers)
        body = requests.body_of(path, numbers) if method == "POST" else None
        self.take("proper", await support.ask(self.port, path, body, method), f"{method} {path} {json.dumps(body)[:400]}")

    async def mutated(self, numbers):
        method, path = numbers.choice([e for e in self.table if e[0] == "POST"])
        path = requests.concrete(path, numbers)
        body = requests.body_of(path, numbers, 4)
        for key in ("max_tokens", "n_predict", "max_output_tokens"):  # an answer without end is no finding
            if key in (body or {}) and numbers.random() < 0.9:
                body[key] = 4
        data = requests.mutate(body, numbers, self.names)
        endless = b'"max_tokens": 4' not in data and b'"n_predict": 4' not in data and b'"max_output_tokens": 4' not in data
        answer = await support.ask(self.port, path, data, method, on_event=(lambda n: n > 5) if endless else None,
                                   seconds=5 if endless else 600)
        if endless and answer.error.startswith("TimeoutError"):
            answer.error = "hung up"
        self.take("mutated", answer, f"{method} {path} {data[:400]!r}")

    async def long_prompt(self, numbers):
        n = numbers.choice([self.n_ctx - 1, self.n_ctx, self.n_ctx + 1, 2 * self.n_ctx, self.n_ctx // 2])
        body = {"prompt": [numbers.randrange(3, 100) for _ in range(n)], "n_predict": 2}
        if numbers.random() < 0.5:
            body = {"messages": [{"role": "user", "content": "word " * n}], "max_tokens": 2}
        path = "/completion" if "prompt" in body else "/v1/chat/completions"
        self.take("long prompt", await support.ask(self.port, path, body), f"{path} {n} tokens")

    async def no_http(self, numbers):
        try:
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(requests.broken_http(numbers))
                await asyncio.sleep(numbers.random() * 0.2)
                if numbers.random() < 0.5 and writer.can_write_eof():
                    writer.write_eof()
                    data = await reader.read(4096)
                    self.counts["no HTTP: answered" if data else "no HTTP: hung up by the server"] += 1
                else:
                    self.counts["no HTTP: left"] += 1
                writer.close()
        except (OSError, TimeoutError) as e:
            self.counts[f"no HTTP: {type(e).__name__}"] += 1

    async def leave(self, numbers):
        """Leaves at a random moment, politely (FIN), halfway (shutdown) or not (RST)."""
        method, path = numbers.choice([e for e in self.table if e[0] == "POST"])
        path = requests.concrete(path, numbers)
        body = requests.body_of(path, numbers, 200)
        if numbers.random() < 0.2:
            body = {"prompt": [numbers.randrange(3, 100) for _ in range(self.n_ctx - 300)], "n_predict": 100, "stream": True}
            path = "/completion"
        data = support.request_bytes(method, path, body)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        how = numbers.choice(["while sending", "after sending", "after the first bytes", "in the stream", "stops reading"])
        try:
            async with asyncio.timeout(60):
                writer.write(data[:numbers.randrange(len(data))] if how == "while sending" else data)
                await writer.drain()
                if how == "after sending":
                    await asyncio.sleep(numbers.choice([0, 0.001, 0.05, 0.2, 1]))
                elif how == "after the first bytes":
                    await reader.read(1)
                elif how == "in the stream":
                    for _ in range(numbers.randint(1, 30)):
                        if not await reader.read(4096):
                            break
                elif how == "stops reading":
                    await asyncio.sleep(numbers.random() * 5)
        except (OSError, TimeoutError):
            pass
        end = numbers.choice(["FIN", "RST", "half"])
        if end == "RST":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif end == "half":
            try:
                writer.write_eof()
                await asyncio.sleep(0.2)
            except OSError:
                pass
        writer.close()
        self.counts[f"left {how} ({end})"] += 1

    async def worker(self, index):
        numbers = support.seeded(self.args.seed, "worker", index)
        actions = [self.proper] * 4 + [self.mutated] * 3 + [self.leave] * 4 + [self.no_http] * 2 + [self.long_prompt]
        while time.monotonic() < self.end:
            try:
                await numbers.choice(actions)(numbers)
            except OSError as e:
                self.counts[f"{type(e).__name__}"] += 1
                if isinstance(e, ConnectionRefusedError):
                    self.find("ConnectionRefused: the server is gone")
            await asyncio.sleep(numbers.random() * 0.05)

    def question(self, index):
        return {"messages": [{"role": "user", "content": support.text_prompt(support.seeded("watch", index), 20 + 30 * index)}],
                "max_tokens": 40, "temperature": 0, "ignore_eos": True, "stream": True, "logprobs": True}

    async def watch_once(self, index):
        answer = await support.ask(self.port, "/v1/chat/completions", self.question(index))
        if answer.error or answer.status != 200:
            return answer, None
        choices = [json.loads(data)["choices"] for _, data in answer.events]
        return answer, json.dumps([[c["delta"].get("content"), c.get("logprobs")] for cs in choices for c in cs])

    async def watcher(self, index, expected):
        while time.monotonic() < self.end:
            answer, text = await self.watch_once(index)
            if answer.status == 429:
                self.counts["watcher 429"] += 1
                await asyncio.sleep(1)
            elif text is None:
                self.find(f"watcher {index}: {answer.status} {answer.error} {answer.body[:300]!r}")
            else:
                self.counts["watcher answers"] += 1
                if text != expected:
                    self.find(f"watcher {index}: another answer: {text[:300]} instead of {expected[:300]}")

    async def monitor(self, server, samples):
        while time.monotonic() < self.end:
            start = time.perf_counter()
            answer = await support.ask(self.port, "/health", method="GET", seconds=60)
            if answer.error or answer.status != 200:
                self.find(f"health: {answer.status} {answer.error}")
            if server.process.poll() is not None:
                self.find("the server has ended")
                return
            samples.append((time.monotonic(), server.memory_kib(), time.perf_counter() - start))
            await asyncio.sleep(5)

    async def run(self, server):
        props = (await support.ask(self.port, "/props", method="GET")).json()
        self.n_ctx = props["meta"]["n_ctx"]
        expected = [(await self.watch_once(i))[1] for i in range(self.args.watchers)]
        assert all(expected), "the first answers failed"
        samples = []
        self.end = time.monotonic() + self.args.minutes * 60
        await asyncio.gather(*(self.watcher(i, e) for i, e in enumerate(expected)),
                             *(self.worker(i) for i in range(self.args.workers)), self.monitor(server, samples))
        for _ in range(300):  # what was left behind must come to an end
            slots = await support.ask(self.port, "/slots", method="GET")
            if slots.status == 200 and not any(s.get("is_processing", True) for s in slots.json()):
                break
            await asyncio.sleep(0.2)
        else:
            self.find(f"requests are left: {slots.body[:500]!r}")
        for index, e in enumerate(expected):
            if (await self.watch_once(index))[1] != e:
                self.find(f"watcher {index}: another answer at the end")
        return samples


def report(soak, samples, status, output, seconds):
    third = len(samples) // 3
    mean = lambda part: sum(m for _, m, _ in part) / max(1, len(part)) / 1024
    early, late = mean(samples[third:2 * third]), mean(samples[2 * third:])
    print(f"\n{support.machine()}, commit {support.commit()}, {seconds / 60:.1f} minutes, seed {soak.args.seed}\n")
    print("| what | count |\n|---|---|")
    for name, n in sorted(soak.counts.items()):
        print(f"| {name} | {n} |")
    print(f"| resident memory, mean of the second third -> of the last, MiB | {early:.0f} -> {late:.0f} ({(late / early - 1) * 100:+.1f} %) |")
    print(f"| highest resident memory, MiB | {max(m for _, m, _ in samples) / 1024:.0f} |")
    print(f"| slowest /health, ms | {max(s for _, _, s in samples) * 1e3:.0f} |")
    print(f"| exit status after SIGTERM | {status} |")
    print(f"| sanitizer reports | {len(FINDING.findall(output))} |")
    print(f"| findings | {len(soak.findings)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokamak", default=support.ROOT / "build/asan/bin/tokamak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--watchers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flags", default="--parallel 12 -c 1024 --kv-tokens 8192 --queue-limit 64")
    parser.add_argument("--prefix", default="", help="command before the server's, such as taskset -c 0")
    args = parser.parse_args()
    flags = args.flags.split()
    if requests.reference(args.tokamak)[2]:
        flags += ["--slot-save-path", tempfile.mkdtemp()]
    server = support.tokamak_server(args.tokamak, args.model, *flags, env=SANITIZERS, prefix=args.prefix.split())
    soak, start, samples = Soak(server.port, args), time.monotonic(), []
    try:
        samples = asyncio.run(soak.run(server))
    finally:
        path, before = server.log.name, server.output()
        keep = pathlib.Path(path + ".kept")
        os.link(path, keep)
        status = server.stop(120)
        output = keep.read_text(errors="replace")
        keep.unlink()
    if FINDING.search(output) or status != 0:
        print(output[-6000:])
    report(soak, samples, status, output, time.monotonic() - start)
    sys.exit(bool(soak.findings) or status != 0 or bool(FINDING.search(output)))


if __name__ == "__main__":
    main()
