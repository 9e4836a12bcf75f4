"""Requests that share 1,500 tokens: time to the first token beside the prefill time of what each adds.

Twenty clients with one system message and questions of their own. The first computes the common part; the others come one
after another, then (with new questions) all at once. The prefill time of a suffix is what `tokamak bench` measures for as many
tokens behind as many others, without a server around it. Bar: TTFT of a hit <= 1.2 times that.
Usage: server_prefix.py MODEL [--tokamak PROGRAM] [--clients N] [--words N] [--rounds N]
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess

import server_support as support

COMMON_TOKENS = 1500


def common_text(port):
    numbers, n_words = support.seeded("common"), COMMON_TOKENS
    text = support.text_prompt(numbers, n_words)
    while len(asyncio.run(support.ask(port, "/tokenize", {"content": text})).json()["tokens"]) < COMMON_TOKENS:
        text += " " + support.text_prompt(numbers, 8)
    return text


async def first_token(port, system, question):
    """(seconds to the first text, cached tokens, computed tokens)"""
    answer = await support.ask(port, "/v1/chat/completions", {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
        "max_tokens": 4, "temperature": 0, "ignore_eos": True, "stream": True})
    if answer.error or answer.status != 200:
        raise SystemExit(f"{answer.status} {answer.error} {answer.body!r}")
    timings = next(json.loads(d)["timings"] for _, d in reversed(answer.events) if b'"timings"' in d)
    text = next(t for t, d in answer.events if b'"content":"' in d and b'"content":""' not in d)
    return text - answer.sent, timings["cache_n"], timings["prompt_n"]


def suffix_seconds(program, model, threads, n_tokens, depth, n_ctx):
    command = [program, "bench", model, "-t", threads, "-p", n_tokens, "-n", 0, "-d", depth, "-r", 5, "-c", n_ctx, "--json"]
    report = json.loads(subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout)
    return statistics.median(report["tests"][0]["seconds"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokamak", default=support.TOKAMAK)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--words", default="20,100,300", help="words of each question")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    n_ctx = 4096
    print(f"{support.machine()}, commit {support.commit()}; {args.clients} clients, {args.rounds} rounds, "
          "median (min..max)\n\n| suffix tokens | cached tokens | cold TTFT ms | prefill of the suffix ms | TTFT of a hit ms | ratio "
          "| all at once: last TTFT ms | over the sum of their prefills |\n|---|---|---|---|---|---|---|---|")
    for n_words in map(int, args.words.split(",")):
        cold, suffix, hits, last, cached, computed = [], [], [], [], [], []
        for round_ in range(args.rounds):
            server = support.tokamak_server(args.tokamak, args.model, "-t", threads, "-c", n_ctx, "--parallel", 32,
                                            "--kv-tokens", 32768)
            system = common_text(server.port)
            question = lambda *who: support.text_prompt(support.seeded("question", round_, *who), n_words)
            cold.append(asyncio.run(first_token(server.port, system, question("first")))[0])
            alone = [asyncio.run(first_token(server.port, system, question("alone", i))) for i in range(args.clients)]

            async def crowd():
                return await asyncio.gather(
                    *(first_token(server.port, system, question("crowd", i)) for i in range(args.clients)))

            last.append(max(t for t, _, _ in asyncio.run(crowd())))
            server.stop()
            cached.append(min(n for _, n, _ in alone))
            computed.append(statistics.median(n for _, _, n in alone))
            hits.append(statistics.median(t for t, _, _ in alone))
            suffix.append(suffix_seconds(args.tokamak, args.model, threads, int(computed[-1]), cached[-1], n_ctx))
        show = lambda v, digits=1: f"{statistics.median(v):.{digits}f} ({min(v):.{digits}f}..{max(v):.{digits}f})"
        ms = lambda v: show([x * 1e3 for x in v])
        print(f"| {statistics.median(computed):.0f} | {min(cached)} | {ms(cold)} | {ms(suffix)} | {ms(hits)} | "
              f"{show([h / s for h, s in zip(hits, suffix)], 2)} | {ms(last)} | "
              f"{show([t / (s * args.clients) for t, s in zip(last, suffix)], 2)} |", flush=True)


if __name__ == "__main__":
    main()
