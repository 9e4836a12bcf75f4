"""Greedy answers of `tokamak serve` are equal, bit for bit, whatever else goes on: text, tokens and log-probabilities.

Every request is answered alone by a server with one thread and no cache; that answer must come back alone again, in crowds, with
neighbours that hang up half way, out of the prefix cache, after eviction, in chunks of other sizes and while prompts
of others are processed.
Usage: server_equal.py MODEL... [--tokamak PROGRAM] [--crowd N]
Exit status 1 when any answer differs.
"""

import argparse
import asyncio
import json
import sys

import server_support as support


class Model:
    """Requests for a model, scaled to its context."""

    def __init__(self, path, program, crowd):
        self.path, self.program, self.crowd = path, program, crowd
        server = support.tokamak_server(program, path)
        meta = asyncio.run(support.ask(server.port, "/props", method="GET")).json()["meta"]
        server.stop()
        self.n_vocab, self.n_ctx = meta["n_vocab"], min(meta["n_ctx"], 1024)
        self.n_prompt, self.n_predict = min(300, self.n_ctx * 5 // 8), min(48, self.n_ctx // 4)

    def prompt(self, index):
        numbers = support.seeded("equal", index)
        n = self.n_prompt if index == 0 else numbers.randint(1, self.n_prompt)
        return [numbers.randrange(3, self.n_vocab) for _ in range(n)]

    def body(self, index, **more):
        n = min(200, self.n_ctx - self.n_prompt) if index == 0 else self.n_predict
        return {"prompt": self.prompt(index), "n_predict": n, "temperature": 0, "n_probs": 5, "return_tokens": True,
                "ignore_eos": True, **more}

    def server(self, *flags):
        return support.tokamak_server(self.program, self.path, "-c", self.n_ctx, "--parallel", 48, *flags)


def essence(answer):
    if answer.error or answer.status != 200:
        return f"{answer.status} {answer.error} {answer.body[:200]!r}"
    parts = [json.loads(data) for _, data in answer.events] if answer.events else [answer.json()]
    return json.dumps({"content": "".join(p.get("content", "") for p in parts),
                       "tokens": [t for p in parts for t in p.get("tokens", [])],
                       "probs": [t for p in parts for t in p.get("completion_probabilities", [])]})


async def complete(port, body, hang_up_after=None):
    hang_up = None if hang_up_after is None else lambda n: n >= hang_up_after
    return await support.ask(port, "/completion", body, on_event=hang_up)


async def gather(port, bodies):
    return await asyncio.gather(*(complete(port, body) for body in bodies))


class Check:
    def __init__(self, model):
        self.model, self.rows, self.n_wrong = model, [], 0
        server = model.server("-t", 1, "--cache-ram", 0)
        self.expected = [essence(asyncio.run(complete(server.port, model.body(i)))) for i in range(model.crowd)]
        server.stop()
        assert all(e.startswith("{") for e in self.expected), self.expected

    def compare(self, what, answers, note=""):
        """answers: (index, Answer) pairs."""
        wrong = [(i, a) for i, a in answers if essence(a) != self.expected[i]]
        self.n_wrong += len(wrong)
        print(f"| {self.model.path.rsplit('/', 1)[-1]} | {what} | {len(answers)} | {len(wrong)} | {note} |", flush=True)
        for index, answer in wrong[:2]:
            print(f"  request {index}:\n  expected {self.expected[index][:300]}\n  got      {essence(answer)[:300]}")

    def alone(self, port, what):
        self.compare(what, [(0, asyncio.run(complete(port, self.model.body(0))))])

    def crowds(self, port):
        for n in (2, 4, 8, 16, self.model.crowd):
            bodies = [self.model.body(i, cache_prompt=False, stream=i % 2 == 1) for i in range(n)]
            self.compare(f"crowd of {n}", list(enumerate(asyncio.run(gather(port, bodies)))))

    def cancelled(self, port):
        async def run():
            stay = [complete(port, self.model.body(i, stream=True, cache_prompt=False))
                    for i in range(0, self.model.crowd, 2)]
            go = [complete(port, self.model.body(i, stream=True, cache_prompt=False), hang_up_after=1 + i)
                  for i in range(1, self.model.crowd, 2)]
            return (await asyncio.gather(*stay, *go))[:len(stay)]

        answers = asyncio.run(run())
        self.compare("half of the neighbours hang up half way", list(zip(range(0, self.model.crowd, 2), answers)))

    def cached(self, port, what, least):
        answers = asyncio.run(gather(port, [self.model.body(i) for i in range(self.model.crowd)]))
        self.compare(f"{what}: asked", list(enumerate(answers)))
        answers = asyncio.run(gather(port, [self.model.body(i) for i in range(self.model.crowd)]))
        n_cached = sum(a.json()["timings"]["cache_n"] for a in answers)
        self.compare(f"{what}: asked again", list(enumerate(answers)), f"{n_cached} prompt tokens from the cache")
        if n_cached < least:
            sys.exit("the cache was not used: nothing was shown")

    def evicted(self, port):
        """A cache smaller than one crowd: what is asked again was thrown out in between."""
        self.alone(port, "before eviction")
        others = [self.model.body(i) for i in range(1, self.model.crowd)]
        asyncio.run(gather(port, others))
        asyncio.run(gather(port, others))
        answer = asyncio.run(complete(port, self.model.body(0)))
        self.compare("after eviction", [(0, answer)], f"{answer.json()['timings']['cache_n']} tokens from the cache")

    def prompts_between(self, port):
        """Long prompts come in while the streams run, so both share steps."""
        async def later(index):
            await asyncio.sleep(0.2 * index)
            return await complete(port, self.model.body(0, cache_prompt=False, n_predict=1))

        async def run():
            streams = [complete(port, self.model.body(i, cache_prompt=False)) for i in range(8)]
            return (await asyncio.gather(*streams, *(later(i) for i in range(8))))[:8]

        self.compare("while prompts of others are processed", list(enumerate(asyncio.run(run()))))


def run_model(model):
    check = Check(model)
    server = model.server("--kv-tokens", 2 * model.crowd * (model.n_prompt + 256))
    check.alone(server.port, "all threads, alone")
    check.crowds(server.port)
    check.cancelled(server.port)
    check.prompts_between(server.port)
    check.cached(server.port, "prefix cache", model.n_prompt)
    server.stop()
    server = model.server("--kv-tokens", 2 * model.n_ctx)
    check.evicted(server.port)
    check.compare("KV cache full, requests give way", list(enumerate(asyncio.run(
        gather(server.port, [model.body(i) for i in range(model.crowd)])))))
    server.stop()
    for flags in (("-b", 1, "--parallel", 1), ("-b", 17, "--parallel", 4), ("-b", 256,),
                  ("--max-token-gap", 1), ("--page-size", 16)):
        server = model.server(*flags)
        what = " ".join(map(str, flags))
        check.compare(what, list(enumerate(asyncio.run(gather(server.port, [model.body(i) for i in range(12)])))))
        server.stop()
    return check.n_wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tokamak", default=support.TOKAMAK)
    parser.add_argument("--crowd", type=int, default=32)
    args = parser.parse_args()
    print(f"{support.machine()}, commit {support.commit()}\n\n| model | how | answers | different | |\n|---|---|---|---|---|")
    n_wrong = sum(run_model(Model(path, args.tokamak, args.crowd)) for path in args.models)
    print(f"\n{n_wrong} answers differ from the answer given alone")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
