"""Requests for every endpoint of the reference pages, proper ones and broken ones: what soak and fuzz send."""

import json
import pathlib
import re
import subprocess
import tempfile

import server_support as support

EDGE_NUMBERS = [0, 1, -1, 2, -2147483648, 2147483647, 2**31, 2**63, -2**63, 2**64, 1.5, 1e6, 1e-9, -1e308, 1e308, 1e400,
                "10", "NaN", "Infinity", None, True, "", [], {}, [[]], [1, "a"]]
EDGE_TEXTS = ["", " ", "\0", "\ud800", "a" * 70000, "é", "🦔👩‍🚀щё한글", "<|im_end|>", "{{ messages }}", "../../etc/passwd", "%00",
              "\u2028", "A\u0301" * 50, None, 5, ["x"], {"type": "text"}, [{"type": "text"}], [{"type": "image_url"}]]
EDGE_PROMPTS = [[-5], [10**9], [4294967297], [1.5], ["a", 7], [[1], []], [], [[], []], {"prompt_string": "x"}, [0] * 9000, None]
DEEP = [lambda n: "[" * n + "]" * n, lambda n: '{"a":' * n + "1" + "}" * n, lambda n: "[" * n, lambda n: '{"messages":' + "[" * n]


def reference(program):
    """(method, path) pairs and names of request fields, from the pages that the program prints."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "docs", "--out", folder], check=True, capture_output=True)
        page = lambda name: pathlib.Path(folder, name).read_text()
        table = []
        for line in page("endpoints.md").splitlines():
            cells = [c.strip() for c in line.split("|")]
            if len(cells) > 3 and cells[1] in ("GET", "POST", "DELETE"):
                table += [(cells[1], path) for path in re.findall(r"`([^`]+)`", cells[2])]
        names = set()
        for name in ("request_fields.md", "settings.md"):
            names.update(re.findall(r"^\| `([a-z_0-9]+)`", page(name), re.M))
        return table, sorted(names), "--slot-save-path" in page("settings.md")


def schema(numbers):
    return numbers.choice([
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 8}}, "required": ["a", "b"],
         "additionalProperties": False},
        {"enum": ["calm", "storm"]}, {"type": "array", "items": {"type": "boolean"}, "maxItems": 4},
        {"type": "string", "pattern": "^[a-c]{1,5}$"}, {"$ref": "#/$defs/x", "$defs": {"x": {"const": 1}}}, {}])


def tools(numbers):
    return [{"type": "function", "function": {"name": f"look_up_{i}", "description": "looks it up",
                                              "parameters": schema(numbers)}} for i in range(numbers.randint(1, 3))]


def body_of(path, numbers, n_predict=16):
    """A proper body for the path; None: it takes none."""
    text = support.text_prompt(numbers, numbers.randint(1, 60))
    stream = numbers.random() < 0.6
    messages = [{"role": "user", "content": text}]
    if numbers.random() < 0.3:
        messages = [{"role": "system", "content": "Be brief."}, *messages, {"role": "assistant", "content": "Yes."},
                    {"role": "user", "content": "Why?"}]
    sampling = numbers.choice([{"temperature": 0}, {"temperature": 1.5, "top_p": 0.9, "seed": numbers.randrange(99)},
                               {"top_k": 0, "min_p": 0}, {"presence_penalty": 1, "frequency_penalty": 1}, {}])
    common = {"stream": stream, **sampling}
    if numbers.random() < 0.2:
        common["stop"] = numbers.choice([".", ["the", "a"], ["\n", "VO CH"]])
    if "chat/completions" in path or "apply-template" in path:
        body = {"messages": messages, "max_tokens": n_predict, **common}
        if numbers.random() < 0.2:
            body["tools"] = tools(numbers)
            body["tool_choice"] = numbers.choice(["auto", "required", "none"])
        elif numbers.random() < 0.3:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema(numbers)}}
        if numbers.random() < 0.2:
            body |= {"logprobs": True, "top_logprobs": 3}
        if numbers.random() < 0.1:
            body["n"] = 2
        return body
    if "count_tokens" in path or "input_tokens" in path:
        return {"model": "m", "messages": messages, "input": text}
    if "responses" in path:
        return {"input": numbers.choice([text, messages]), "max_output_tokens": n_predict, "stream": stream}
    if "messages" in path:
        return {"model": "m", "messages": messages, "max_tokens": n_predict, "stream": stream}
    if "embedding" in path:
        return {"input": numbers.choice([text, [text, "a"], [1, 2, 3]]), "encoding_format": numbers.choice(["float", "base64"])}
    if "rerank" in path:
        return {"query": text, "documents": [text, "a", "the law"], "top_n": 2}
    if "infill" in path:
        return {"input_prefix": "def f(", "input_suffix": "return 1\n", "n_predict": n_predict, **common}
    if "detokenize" in path:
        return {"tokens": [numbers.randrange(100) for _ in range(5)]}
    if "tokenize" in path:
        return {"content": text, "with_pieces": True}
    if path == "/v1/completions":
        return {"prompt": text, "max_tokens": n_predict, "echo": numbers.random() < 0.2, **common}
    if "completion" in path:
        body = {"prompt": text, "n_predict": n_predict, **common}
        if numbers.random() < 0.2:
            body["grammar"] = 'root ::= "a" [b-d]{2,5} "e"'
        return body
    if "slots" in path:
        return {"filename": numbers.choice(["a.bin", "b.bin"])}
    return {"content": text}


def concrete(path, numbers):
    """Fills in what is variable in a path of the reference, and the queries that it may have."""
    path = re.sub(r"\{[^}]*\}|:[a-z_]+|<[^>]*>", lambda _: numbers.choice(["0", "1", "7", "x", "-1", "99999999999"]), path)
    if path.startswith("/slots"):
        path += numbers.choice(["", "?action=save", "?action=restore", "?action=erase", "?action=", "?fail_on_no_slot=1"])
    return path


def mutate(body, numbers, names):
    """Bytes of a body with one to three things wrong or odd."""
    body = dict(body or {})
    for _ in range(numbers.randint(1, 3)):
        kind = numbers.random()
        key = numbers.choice(list(body)) if body and kind < 0.5 else numbers.choice(names)
        if kind < 0.1:
            body.pop(key, None)
        else:
            body[key] = numbers.choice(numbers.choice([EDGE_NUMBERS, EDGE_TEXTS, EDGE_PROMPTS]))
    data = json.dumps(body).encode("utf-8", "surrogatepass")
    data = data.replace(b"1e400", b"1e400").replace(b"Infinity", b"1e999")
    kind = numbers.random()
    if kind < 0.1:
        data = data[:numbers.randrange(len(data) + 1)]
    elif kind < 0.25:
        at = numbers.randrange(len(data))
        data = data[:at] + bytes([numbers.randrange(256)]) + data[at + numbers.randint(0, 2):]
    elif kind < 0.28:
        data = numbers.choice(DEEP)(numbers.choice([100, 5000, 200000])).encode()
    elif kind < 0.3:
        data = data[:-1] + b"," + data[1:]  # every name twice
    return data


def broken_http(numbers):
    """Bytes that are no proper request. The server may answer 4xx or 5xx, or hang up."""
    body = b'{"messages":[{"role":"user","content":"x"}],"max_tokens":2}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
    return numbers.choice([
        b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /\xff\xfe HTTP/1.1\r\n\r\n", b"G" * 5000 + b" / HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 60000 + b" HTTP/1.1\r\n\r\n", b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 9000 + b"\r\n",
        head + b"Content-Length: -1\r\n\r\n" + body, head + b"Content-Length: 99999999999999999999\r\n\r\n",
        head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + body, head + b"Content-Length: 4294967296\r\n\r\n" + body,
        head + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        head + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n", head + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        head + b"Transfer-Encoding: gzip\r\n\r\n" + body, head + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",
        head + b"Content-Length: %d\r\n\r\n" % (len(body) - 9) + body,  # the rest reads as the next request
        (head + b"Content-Length: %d\r\n\r\n" % len(body) + body) * 3,  # pipelined
        head + b"Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n", bytes(numbers.randrange(256) for _ in range(300)),
        b"POST /v1/chat/completions HTTP/1.0\r\n\r\n", b"CONNECT a:80 HTTP/1.1\r\n\r\n", b"GET http://x/y HTTP/1.1\r\nHost: z\r\n\r\n",
        b"PUT /health HTTP/1.1\r\nHost: x\r\n\r\n", b"HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ])
