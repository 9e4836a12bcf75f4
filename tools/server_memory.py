"""`tokamak plan` beside the memory that a loaded server holds: resident anonymous memory (mappings of the model file are counted apart),
when every page of the KV cache, every row of a full crowd and as many shapes of steps as are kept have been used once.
Usage: server_memory.py MODEL [--tokamak PROGRAM]
"""

import argparse
import asyncio
import json
import subprocess

import server_support as support


def plan(program, model, flags):
    report = json.loads(subprocess.run([program, "plan", model, *flags, "--json"], check=True, capture_output=True).stdout)
    parts = {p["what"]: p["bytes"] for p in report["parts"] if not p["file_mapping"]}
    return report["reserved_bytes"], parts


async def fill(port, n_parallel, n_ctx, kv_tokens, n_vocab):
    """Prompts of a whole context until the KV cache has been full, and a crowd of answers with rows of log-probabilities."""
    numbers = support.seeded("memory")
    body = lambda n, **more: {"prompt": [numbers.randrange(3, n_vocab) for _ in range(n)], "ignore_eos": True, **more}
    for _ in range(kv_tokens // n_ctx + 1):
        await support.ask(port, "/completion", body(n_ctx - 8, n_predict=4, temperature=0))
    for n in range(1, 81):  # more shapes of steps than are kept compiled
        await support.ask(port, "/completion", body(n, n_predict=1, temperature=0, cache_prompt=False))
    share = min(200, kv_tokens // n_parallel - 40)
    answers = await asyncio.gather(*(
        support.ask(port, "/completion", body(numbers.randint(share // 2, share), n_predict=30, temperature=1, stream=True))
        for _ in range(2 * n_parallel)))
    bad = [a for a in answers if a.error or a.status != 200]
    if bad:
        raise SystemExit(f"{len(bad)} requests failed: {bad[0].status} {bad[0].error} {bad[0].body[:200]!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokamak", default=support.TOKAMAK)
    args = parser.parse_args()
    print(f"{support.machine()}, commit {support.commit()}\n\n| flags | plan MB | after the start MB | after the load MB | plan over "
          "resident |\n|---|---|---|---|---|")
    for n_ctx, kv_tokens, n_parallel in ((2048, 8192, 16), (1024, 16384, 32), (1024, 32768, 64)):
        flags = ["-c", str(n_ctx), "--kv-tokens", str(kv_tokens), "--parallel", str(n_parallel)]
        planned, parts = plan(args.tokamak, args.model, flags)
        server = support.tokamak_server(args.tokamak, args.model, *flags)
        n_vocab = asyncio.run(support.ask(server.port, "/props", method="GET")).json()["meta"]["n_vocab"]
        first = server.memory_kib("RssAnon")
        asyncio.run(fill(server.port, n_parallel, n_ctx, kv_tokens, n_vocab))
        last = server.memory_kib("RssAnon")
        server.stop()
        print(f"| {' '.join(flags)} | {planned / 1e6:.1f} | {first * 1024 / 1e6:.1f} | {last * 1024 / 1e6:.1f} | "
              f"{planned / (last * 1024):.3f} |", flush=True)
        print("  " + "; ".join(f"{what} {n / 1e6:.1f}" for what, n in parts.items()))


if __name__ == "__main__":
    main()
