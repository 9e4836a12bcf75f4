"""What `tokamak serve` does when the world fails: SIGKILL while a slot is saved, a full disk, clients that vanish, clock jumps, a process
that is stopped and continued, SIGTERM in the middle of answers.

Each part prints a row; promises that were broken are listed and give exit status 1. Needs a C compiler (the clock), and
root for the full disk (a small tmpfs is mounted; without root that row says so).
Usage: server_failures.py MODEL [--tokamak PROGRAM] [--only NAME,...]
"""

import argparse
import asyncio
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import server_support as support

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
/* Wall-clock time plus the seconds that stand in the file $CLOCK_OFFSET; other clocks as they are. */
static long offset(void) {
  static volatile long *mapped;
  if (!mapped) {
    int fd = open(getenv("CLOCK_OFFSET"), O_RDWR);
    void *p = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    mapped = p;
  }
  return *mapped;
}
int clock_gettime(clockid_t id, struct timespec *t) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(id, t);
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) t->tv_sec += offset();
  return status;
}
int gettimeofday(struct timeval *t, void *zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""


class Checks:
    def __init__(self, args):
        self.args, self.broken = args, []

    def server(self, *flags, **how):
        return support.tokamak_server(self.args.tokamak, self.args.model, "-c", 1024, "--kv-tokens", 8192, *flags, **how)

    def row(self, name, what, promises):
        """promises: (text, whether it was kept) pairs."""
        wrong = [text for text, kept in promises if not kept]
        self.broken += [f"{name}: {text}" for text in wrong]
        print(f"| {name} | {what} | {'kept' if not wrong else 'BROKEN: ' + '; '.join(wrong)} |", flush=True)

    def question(self, index, n=120, **more):
        return {"prompt": support.text_prompt(support.seeded("failures", index), 40), "n_predict": n, "temperature": 0,
                "ignore_eos": True, **more}

    def ask(self, server, body, path="/completion", **how):
        return asyncio.run(support.ask(server.port, path, body, **how))

    # SIGKILL at random moments of a save: under the name is nothing, the old file, or the new one.
    def kill_while_saving(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        numbers, n_old, n_new, n_none, n_bad = support.seeded("kill"), 0, 0, 0, 0
        flags = ("--parallel", 1, "--slot-save-path", folder)
        server = self.server(*flags)
        expected = self.ask(server, self.question(0)).json()["content"]
        saved = self.ask(server, {"filename": "slot.bin"}, "/slots/0?action=save")
        if saved.status != 200:
            server.stop()
            return self.row("SIGKILL while saving a slot", f"not built: {saved.status} {saved.body[:100]!r}", [])
        save_ms, old = saved.json()["timings"]["save_ms"], (folder / "slot.bin").read_bytes()
        server.stop()
        for _ in range(self.args.kills):
            (folder / "slot.bin").write_bytes(old)
            server = self.server(*flags)
            self.ask(server, self.question(1, 160))
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                s.sendall(support.request_bytes("POST", "/slots/0?action=save", {"filename": "slot.bin"}))
                time.sleep(numbers.random() * 2 * save_ms / 1e3)
                server.process.kill()
            server.stop()
            now = (folder / "slot.bin").read_bytes() if (folder / "slot.bin").exists() else None
            server = self.server(*flags)
            restored = self.ask(server, {"filename": "slot.bin"}, "/slots/0?action=restore")
            n_none += now is None
            n_bad += restored.status != 200
            n_old += now == old
            n_new += now is not None and now != old
            if now == old and restored.status == 200:
                answer = self.ask(server, self.question(0)).json()
                n_bad += answer["content"] != expected or answer["timings"]["cache_n"] == 0
            server.stop()
        n_left = len(list(folder.iterdir())) - 1
        self.row("SIGKILL while saving a slot", f"{self.args.kills} kills within 2 x {save_ms:.1f} ms: the old file {n_old} times, the "
                 f"new one {n_new}; {n_left} unfinished files left beside it",
                 [("a whole file under the name, restored and used", n_bad == 0 and n_none == 0)])

    def full_disk(self):
        folder = tempfile.mkdtemp()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True)
        if mounted.returncode != 0:
            return self.row("full disk", f"not run: {mounted.stderr.decode().strip()}", [])
        try:
            server = self.server("--parallel", 2, "--slot-save-path", folder)
            self.ask(server, self.question(0, 8, id_slot=0))
            small = self.ask(server, {"filename": "slot.bin"}, "/slots/0?action=save")
            before = pathlib.Path(folder, "slot.bin").read_bytes() if small.status == 200 else b""
            pathlib.Path(folder, "filler").write_bytes(b"x" * max(0, os.statvfs(folder).f_bavail * 4096 - 65536))
            self.ask(server, self.question(0, 200, id_slot=0))
            saved = self.ask(server, {"filename": "slot.bin"}, "/slots/0?action=save")
            files = sorted(p.name for p in pathlib.Path(folder).iterdir())
            after = pathlib.Path(folder, "slot.bin").read_bytes()
            answer = self.ask(server, self.question(1))
            status = server.stop()
        finally:
            subprocess.run(["umount", "-l", folder])
        self.row("full disk while saving a slot", f"status {saved.status}: {saved.body.decode()[:160]}",
                 [("an error that says so", saved.status >= 400 and b"space" in saved.body.lower()),
                  ("the older file stays whole", before == after), ("no half file is left", files == ["filler", "slot.bin"]),
                  ("the server goes on", answer.status == 200 and status == 0)])

    async def stream(self, port, index, n=200):
        answer = await support.ask(port, "/completion", self.question(index, n, stream=True))
        times = [t for t, _ in answer.events]
        text = "".join(json.loads(d).get("content", "") for _, d in answer.events)
        gap = max((b - a for a, b in zip(times, times[1:])), default=0)
        return answer, text, gap

    # Reads nothing and never closes; the other one sends half a body and falls silent.
    def vanished_clients(self):
        server = self.server("--parallel", 4)
        expected = asyncio.run(self.stream(server.port, 0, 40))[1]
        before = server.memory_kib()
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(support.request_bytes("POST", "/completion", self.question(1, 900, stream=True, n_probs=200)))
        silent = socket.create_connection(("127.0.0.1", server.port))
        silent.sendall(support.request_bytes("POST", "/completion", self.question(2))[:-20])
        start, most, freed, same = time.monotonic(), before, None, True
        while time.monotonic() - start < 150 and freed is None:
            answer, text, _ = asyncio.run(self.stream(server.port, 0, 40))
            same = same and not answer.error and text == expected
            most = max(most, server.memory_kib())
            listed = self.ask(server, None, "/slots", method="GET").json()
            if not any(s.get("is_processing", True) for s in listed):
                freed = time.monotonic() - start
        silent.settimeout(60)
        closed = b"?"
        try:
            closed = silent.recv(200)
        except OSError:
            pass
        deaf.close()
        status = server.stop()
        self.row("clients that vanish without a word", f"the stream that nobody reads was ended after {freed or -1:.0f} s, "
                 f"memory +{(most - before) / 1024:.0f} MiB; the half request got {closed[:30]!r}",
                 [("its place becomes free", freed is not None), ("other streams are the same", same),
                  ("memory stays bounded", most - before < 64 * 1024), ("the half request is ended", closed != b"?"),
                  ("SIGTERM ends the server", status == 0)])

    def clock_jump(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        (folder / "clock.c").write_text(CLOCK)
        (folder / "offset").write_bytes(bytes(8))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "clock.so", folder / "clock.c", "-ldl"], check=True)
        server = self.server(env={"LD_PRELOAD": str(folder / "clock.so"), "CLOCK_OFFSET": str(folder / "offset")})
        set_clock = lambda seconds: (folder / "offset").write_bytes(int(seconds).to_bytes(8, "little", signed=True))
        expected = asyncio.run(self.stream(server.port, 0))

        async def jumps():
            task = asyncio.create_task(self.stream(server.port, 0, 200))
            for seconds in (86400, -86400, 10**9, -3600):
                await asyncio.sleep(0.1)
                set_clock(seconds)
            during = await support.ask(server.port, "/v1/chat/completions",
                                       {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1})
            return await task, during

        (answer, text, gap), during = asyncio.run(jumps())
        seen = during.json()["created"] - time.time()
        set_clock(0)
        status = server.stop()
        self.row("clock jumps by days in the middle of a stream", f"longest gap {gap * 1e3:.0f} ms (quiet: {expected[2] * 1e3:.0f} ms); "
                 f"`created` moved by {seen:.0f} s",
                 [("the stream is the same", not answer.error and text == expected[1]), ("the jump was seen", abs(seen + 3600) < 100),
                  ("SIGTERM ends the server", status == 0)])

    def stop_and_continue(self):
        server = self.server()
        expected = asyncio.run(self.stream(server.port, 0, 400))[1]

        async def run():
            task = asyncio.create_task(self.stream(server.port, 0, 400))
            await asyncio.sleep(0.3)
            server.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(5)
            server.process.send_signal(signal.SIGCONT)
            return await task

        answer, text, gap = asyncio.run(run())
        after = asyncio.run(self.stream(server.port, 0, 400))[1]
        status = server.stop()
        self.row("SIGSTOP, 5 s, SIGCONT", f"the stream paused for {gap:.1f} s and went on",
                 [("the stream is the same", not answer.error and text == expected and after == expected),
                  ("it was stopped", gap > 4.5), ("SIGTERM ends the server", status == 0)])

    def drain(self):
        server = self.server("--parallel", 4)

        async def run():
            tasks = [asyncio.create_task(self.stream(server.port, i, 150)) for i in range(8)]
            await asyncio.sleep(1)
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            late = await support.ask(server.port, "/completion", self.question(9))
            return await asyncio.gather(*tasks), late

        answers, late = asyncio.run(run())
        whole = sum(not a.error and bool(a.events) and b'"stop":true' in a.events[-1][1] for a, _, _ in answers)
        status = server.stop()
        self.row("SIGTERM with 4 running and 4 waiting requests", f"{whole} of 8 answered in full; a new one got "
                 f"{late.status or late.error.split(':')[0]}",
                 [("what was accepted is answered", whole == 8), ("exit status 0", status == 0)])

    def killed(self):
        server = self.server()

        async def run():
            task = asyncio.create_task(self.stream(server.port, 0, 900))
            await asyncio.sleep(0.5)
            server.process.kill()
            return await task

        answer, text, _ = asyncio.run(run())
        port = server.port
        server.stop()
        again = support.Server([self.args.tokamak, "serve", self.args.model, "--port", port, "-c", 1024], port)
        ok = self.ask(again, self.question(0)).status
        again.stop()
        self.row("SIGKILL in the middle of a stream", f"the client saw: {answer.error or 'a whole answer'}; restarted on the same port at "
                 f"once: {ok}", [("the client can tell", answer.error != ""), ("the port is free again", ok == 200)])


PARTS = ["kill_while_saving", "full_disk", "vanished_clients", "clock_jump", "stop_and_continue", "drain", "killed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokamak", default=support.TOKAMAK)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--kills", type=int, default=20)
    args = parser.parse_args()
    checks = Checks(args)
    print(f"{support.machine()}, commit {support.commit()}\n\n| failure | what happened | promises |\n|---|---|---|")
    for part in args.only.split(","):
        getattr(checks, part)()
    for line in checks.broken:
        print("broken:", line)
    sys.exit(bool(checks.broken))


if __name__ == "__main__":
    main()
