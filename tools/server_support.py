"""What the server tools share: starting servers, and HTTP over plain asyncio sockets (two cores serve client and server)."""

import asyncio
import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKAMAK = ROOT / "build/release/bin/tokamak"
# Everyday words, so that prompts cost about one token a word.
WORDS = """time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work government number night point home water room mother
area money story fact month lot right study book eye job word business issue side kind head house service friend
father power hour game line end member law car city community name president team minute idea kid body information
back parent face others level office door health person art war history party result change morning reason research
girl guy moment air teacher force education""".split()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server process; ready when /health says so. `log` is the path of what it prints."""

    def __init__(self, command, port, env=None, prefix=(), seconds=120):
        self.port = port
        self.log = tempfile.NamedTemporaryFile("w+b", suffix=".log", delete=False)
        environment = {**os.environ, **(env or {})}
        self.process = subprocess.Popen([*prefix, *map(str, command)], stdout=self.log, stderr=subprocess.STDOUT,
                                        env=environment, start_new_session=True)
        end = time.monotonic() + seconds
        while not self.is_healthy():
            if self.process.poll() is not None or time.monotonic() > end:
                text = self.output()
                self.stop()
                raise SystemExit(f"the server did not start: {' '.join(map(str, command))}\n{text}")
            time.sleep(0.05)

    def is_healthy(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                s.settimeout(5)
                s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return s.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False

    def output(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def memory_kib(self, name="VmRSS"):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
        raise KeyError(name)

    def stop(self, seconds=60):
        """SIGTERM, then SIGKILL. Returns the exit status; negative: the signal."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
        status = self.process.wait()
        self.log.close()
        os.unlink(self.log.name)
        return status


def tokamak_server(program, model, *flags, **how):
    port = free_port()
    return Server([program, "serve", model, "--port", port, *flags], port, **how)


def llama_server(program, model, *flags, **how):
    port = free_port()
    return Server([program, "-m", model, "--port", port, "--no-webui", *flags], port, **how)


@dataclasses.dataclass
class Answer:
    """One exchange. Times in seconds on time.perf_counter()."""
    status: int = 0
    error: str = ""  # not empty: no complete answer
    sent: float = 0
    events: list = dataclasses.field(default_factory=list)  # (time, payload bytes) of each server-sent event but [DONE]
    body: bytes = b""  # of answers that are no stream
    done: bool = False  # [DONE] came, or the whole body

    def json(self):
        return json.loads(self.body)


async def read_head(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    fields = {k.strip().lower(): v.strip() for k, _, v in (line.partition(b":") for line in lines[1:] if line)}
    return int(lines[0].split()[1]), fields


async def read_body(reader, fields):
    """Yields pieces of the body as they come."""
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            piece = (await reader.readexactly(size + 2))[:-2]
            if size == 0:
                return
            yield piece
    elif b"content-length" in fields:
        yield await reader.readexactly(int(fields[b"content-length"]))
    else:
        while piece := await reader.read(65536):
            yield piece


def request_bytes(method, path, body=None, headers=()):
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    if data:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


async def ask(port, path, body=None, method="POST", headers=(), seconds=600, on_event=None):
    """One request on a connection of its own. `on_event(n)` is called with the number of events so far; True hangs up."""
    answer = Answer(sent=time.perf_counter())
    writer = None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
            writer.write(request_bytes(method, path, body, headers))
            answer.status, fields = await read_head(reader)
            is_stream = fields.get(b"content-type", b"").startswith(b"text/event-stream")
            rest = b""
            async for piece in read_body(reader, fields):
                if not is_stream:
                    answer.body += piece
                    continue
                now = time.perf_counter()
                *blocks, rest = (rest + piece).split(b"\n\n")
                for block in blocks:
                    data = b"".join(line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:"))
                    if data == b"[DONE]":
                        answer.done = True
                    elif data:
                        answer.events.append((now, data))
                if on_event and on_event(len(answer.events)):
                    answer.error = "hung up"
                    return answer
            answer.done = answer.done or not is_stream
    except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError) as e:
        answer.error = f"{type(e).__name__}: {e}"
    finally:
        if writer:
            writer.close()
    return answer


def text_prompt(random_numbers, n_words):
    return " ".join(random_numbers.choice(WORDS) for _ in range(n_words))


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))] if ordered else float("nan")


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return f"{model}, {len(os.sched_getaffinity(0))} cores"


def commit():
    if not shutil.which("git"):
        return "unknown"
    out = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return out.stdout.strip() or "unknown"


def seeded(*parts):
    return random.Random("/".join(map(str, parts)))
