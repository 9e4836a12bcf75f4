"""Speed under load: `tokamak serve`, and beside it llama.cpp's server with the same file, in turn, over loopback.

N clients at once, each asks one chat after the other: prompts of mixed lengths that share nothing, 128 tokens at temperature 0, end
tokens ignored, streamed. TTFT: from sending to the first event with text. TPOT: time between the first and the last of
them, over the tokens between. Goodput counts the tokens of requests with TTFT <= --slo-ttft and TPOT <= --slo-tpot.
Usage: server_load.py MODEL [--tokamak PROGRAM] [--llama-server PROGRAM] [--streams 1,8,64,256] [--rounds N] [--json FILE]
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess

import server_support as support

N_PREDICT = 128
REQUESTS = {1: 4, 8: 2, 64: 1, 256: 1}  # of each client


def body_of(n_clients, round_, client, turn):
    numbers = support.seeded(n_clients, round_, client, turn)
    n_words = min(600, max(8, int(numbers.lognormvariate(4.6, 0.9))))  # median 100
    return {
        "messages": [{"role": "user", "content": support.text_prompt(numbers, n_words)}],
        "max_tokens": N_PREDICT, "temperature": 0, "ignore_eos": True, "stream": True,
        "stream_options": {"include_usage": True},
    }


def measure(answer):
    """(ttft, tpot, tokens, gaps) or the reason why not."""
    if answer.error or answer.status != 200 or not answer.done:
        return answer.error or f"status {answer.status} {answer.body[:200]!r}"
    times, tokens = [], 0
    for when, data in answer.events:
        if b'"content":"' in data and b'"content":""' not in data:
            times.append(when)
        if b'"usage":{' in data:
            tokens = json.loads(data)["usage"]["completion_tokens"]
    if tokens != N_PREDICT or len(times) < 2:
        return f"{tokens} tokens in {len(times)} events"
    return (times[0] - answer.sent, (times[-1] - times[0]) / (tokens - 1), tokens,
            [b - a for a, b in zip(times, times[1:])])


async def one_load(port, n_clients, round_, n_turns):
    async def client(index):
        return [measure(await support.ask(port, "/v1/chat/completions", body_of(n_clients, round_, index, turn)))
                for turn in range(n_turns)]

    loop = asyncio.get_running_loop()
    start = loop.time()
    results = await asyncio.gather(*(client(i) for i in range(n_clients)))
    return [r for rs in results for r in rs], loop.time() - start


def load(port, n_clients, round_, slo, n_turns):
    results, seconds = asyncio.run(one_load(port, n_clients, round_, n_turns))
    good = [r for r in results if isinstance(r, tuple)]
    failures = [r for r in results if isinstance(r, str)]
    ttft, tpot = [r[0] for r in good], [r[1] for r in good]
    gaps = [g for r in good for g in r[3]]
    return {
        "throughput": sum(r[2] for r in good) / seconds,
        "goodput": sum(r[2] for r in good if r[0] <= slo[0] and r[1] <= slo[1]) / seconds,
        "ttft50": support.percentile(ttft, 50), "ttft99": support.percentile(ttft, 99),
        "tpot50": support.percentile(tpot, 50), "tpot99": support.percentile(tpot, 99),
        "gap99": support.percentile(gaps, 99), "gap_max": max(gaps, default=float("nan")),
        "rate": 1 / statistics.median(tpot) if tpot else 0,
        "failures": len(failures), "reasons": failures[:3],
    }


def bench_rate(program, model, threads):
    command = [program, "bench", model, "-t", str(threads), "-p", "0", "-n", str(N_PREDICT), "-d", "128", "-r", "1",
               "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return next(t["tokens_per_second"]["median"] for t in report["tests"] if t["name"].startswith("decode"))


def show(rows, key, scale=1, digits=0):
    values = [r[key] * scale for r in rows]
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def print_table(results, n_streams):
    print("| streams | server | tokens/s | goodput tokens/s | TTFT p50 s | TTFT p99 s | TPOT p50 ms | TPOT p99 ms "
          "| longest gap ms | failures |\n|---|---|---|---|---|---|---|---|---|---|")
    for n in n_streams:
        for name, by_n in results.items():
            rows = by_n[n]
            print(f"| {n} | {name} | {show(rows, 'throughput')} | {show(rows, 'goodput')} | {show(rows, 'ttft50', 1, 2)} | "
                  f"{show(rows, 'ttft99', 1, 2)} | {show(rows, 'tpot50', 1e3, 1)} | {show(rows, 'tpot99', 1e3, 1)} | "
                  f"{show(rows, 'gap_max', 1e3)} | {sum(r['failures'] for r in rows)} |")
    if len(results) == 2:
        a, b = results.values()
        for n in n_streams:
            ratios = [x["goodput"] / max(y["goodput"], 1e-9) for x, y in zip(a[n], b[n])]
            print(f"\nGoodput at {n} streams over llama.cpp's: {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f}..{max(ratios):.2f})", end="")
    print()
    for name, by_n in results.items():
        for n in n_streams:
            for row in by_n[n]:
                for reason in row["reasons"]:
                    print(f"{name}, {n} streams: {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokamak", default=support.TOKAMAK)
    parser.add_argument("--llama-server")
    parser.add_argument("--streams", default="1,8,64,256")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, help="requests of each client; default: 4, 2, 1, 1 for 1, 8, 64, 256")
    parser.add_argument("--parallel", type=int, default=64)
    parser.add_argument("--kv-tokens", type=int, default=65536)
    parser.add_argument("--slo-ttft", type=float, default=10)
    parser.add_argument("--slo-tpot", type=float, default=0.25)
    parser.add_argument("--llama-flags", default="", help="more flags for llama.cpp's server")
    parser.add_argument("--flags", default="", help="more flags for tokamak serve")
    parser.add_argument("--json")
    args = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    n_streams = [int(n) for n in args.streams.split(",")]
    slo = (args.slo_ttft, args.slo_tpot)
    context = args.kv_tokens // args.parallel

    def start(name):
        if name == "llama.cpp":
            return support.llama_server(args.llama_server, args.model, "-t", threads, "-c", args.kv_tokens, "-np",
                                        args.parallel, *args.llama_flags.split())
        return support.tokamak_server(args.tokamak, args.model, "-t", threads, "-c", context, "--kv-tokens",
                                      args.kv_tokens, "--parallel", args.parallel, *args.flags.split())

    names = ["tokamak"] + (["llama.cpp"] if args.llama_server else [])
    results = {name: {n: [] for n in n_streams} for name in names}
    bench = []
    for round_ in range(args.rounds):
        bench.append(bench_rate(args.tokamak, args.model, threads) if 1 in n_streams else 0)
        for name in names if round_ % 2 == 0 else names[::-1]:
            server = start(name)
            load(server.port, 1, f"warm{round_}", slo, 1)
            for n in n_streams:
                results[name][n].append(load(server.port, n, round_, slo, args.turns or REQUESTS.get(n, 1)))
            server.stop()
    print(f"{support.machine()}, {threads} threads, commit {support.commit()}; {args.rounds} rounds, median (min..max); "
          f"--parallel {args.parallel}, {args.kv_tokens} KV tokens; goodput: TTFT <= {slo[0]:g} s and TPOT <= {slo[1] * 1e3:g} ms\n")
    print_table(results, n_streams)
    if 1 in n_streams:
        ratios = [r["rate"] / b for r, b in zip(results["tokamak"][1], bench)]
        print(f"Decode rate of one stream: {show(results['tokamak'][1], 'rate')} tokens/s; `tokamak bench`: "
              f"{statistics.median(bench):.0f}; ratio {statistics.median(ratios):.3f} ({min(ratios):.3f}..{max(ratios):.3f})")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"results": results, "bench": bench}, file, indent=1)


if __name__ == "__main__":
    main()
