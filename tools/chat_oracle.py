#!/usr/bin/env python3
"""Writes tests/golden/chat/*.json: what transformers' own template machinery makes of our templates and expressions.

    tools/chat_oracle.py [--check] [--models FOLDER]

--check compares with the committed files instead of writing. --models names a folder with GGUF files; the prompts of
their own templates are written without the template text (the C++ test reads the text from the same file).
Needs: transformers, jinja2; gguf for --models.
"""

import argparse
import copy
import datetime
import hashlib
import json
import pathlib
import re
import sys

import jinja2
import transformers.utils.chat_template_utils as machinery

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "tests/data/chat"
GOLDEN = ROOT / "tests/golden/chat"
NOW = datetime.datetime(2024, 7, 26, 9, 5, 3)  # a Friday; the C++ test sets the same clock


class FixedDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


machinery.datetime = FixedDatetime

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather, naïve → 你好 \"quoted\" <b>&</b>",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City and country"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "Scale", "default": "celsius"},
                "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 1},
            },
            "required": ["city"],
        },
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Looks things up\nin the archive",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for"},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "Labels"},
                "where": {
                    "type": "object",
                    "description": "Place",
                    "properties": {"shelf": {"type": "integer"}, "exact": {"type": "boolean"}},
                    "required": ["shelf"],
                },
                "limit": {"type": ["integer", "null"], "description": "At most"},
                "ratio": {"type": "number", "default": 0.25},
            },
            "required": ["query", "tags"],
        },
    },
}
CALL = {"id": "abc123def", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "deep": {"a": [1, 2.5, None, True]}}}}
CALL2 = {"id": "xyz789uvw", "type": "function",
         "function": {"name": "search", "arguments": {"query": "rain \"coat\"\n", "tags": ["a", "b"]}}}

U, A, S, T = "user", "assistant", "system", "tool"


def m(role, content, **extra):
    return {"role": role, "content": content, **extra}


CASES = [
    {"name": "plain", "messages": [m(U, "What is a tokamak?")], "add_generation_prompt": True},
    {"name": "plain, no prompt", "messages": [m(U, "What is a tokamak?")]},
    {"name": "multi-turn",
     "messages": [m(U, "  Hi there \n"), m(A, " Hello!\n\nHow can I help? "), m(U, "Say 你好 🌍 \"twice\" & <b>loud</b>\r\nnow")],
     "add_generation_prompt": True},
    {"name": "ends with assistant", "messages": [m(U, "One?"), m(A, "One."), m(U, "Two?"), m(A, "Two.")]},
    {"name": "system", "messages": [m(S, "  Be brief.\nBe kind. "), m(U, "Ready?")], "add_generation_prompt": True},
    {"name": "system multi-turn",
     "messages": [m(S, "Rules: {{ none }} {% if %}"), m(U, "a|b|\nc"), m(A, "<think>\nhm\n</think>\n\nanswer"), m(U, "next")],
     "add_generation_prompt": True},
    {"name": "two user turns", "messages": [m(U, "one"), m(U, "two"), m(U, "three"), m(A, "x"), m(A, "y")],
     "add_generation_prompt": True},
    {"name": "thinking off", "messages": [m(U, "Quick?")], "add_generation_prompt": True,
     "kwargs": {"enable_thinking": False, "thinking": True, "reasoning_effort": "high"}},
    {"name": "reasoning", "messages": [m(U, "Q"), m(A, "Final.", reasoning_content="step 1\nstep 2"), m(U, "R"),
                                       m(A, "Last.", reasoning_content="again")]},
    {"name": "tools", "messages": [m(S, "Use tools."), m(U, "Weather?")], "tools": [WEATHER, SEARCH],
     "add_generation_prompt": True},
    {"name": "tool call", "messages": [m(U, "Weather?"), m(A, "", tool_calls=[CALL]),
                                       m(T, "{\"temp\": 21}", tool_call_id="abc123def", name="get_weather"),
                                       m(A, "It is 21 degrees."), m(U, "Thanks")],
     "tools": [WEATHER], "add_generation_prompt": True},
    {"name": "two tool calls", "messages": [m(U, "Both?"), m(A, "", tool_calls=[CALL, CALL2]),
                                            m(T, "sunny", tool_call_id="abc123def", name="get_weather"),
                                            m(T, "[\"coat\"]", tool_call_id="xyz789uvw", name="search")],
     "tools": [WEATHER, SEARCH], "add_generation_prompt": True},
    {"name": "content and call", "messages": [m(U, "Go"), m(A, "Let me look.", tool_calls=[CALL2]),
                                              m(T, "done", tool_call_id="xyz789uvw", name="search")],
     "add_generation_prompt": True},
    {"name": "reasoning and call", "messages": [m(U, "Go"), m(A, "", reasoning_content="I should look", tool_calls=[CALL2]),
                                                m(T, "done", tool_call_id="xyz789uvw", name="search")],
     "tools": [SEARCH], "add_generation_prompt": True},
    {"name": "documents", "messages": [m(U, "Cite.")], "add_generation_prompt": True,
     "documents": [{"title": "First", "text": "Alpha beta."}, {"title": "Second", "text": "Gamma.", "year": 1999}]},
    {"name": "parts", "messages": [m(U, [{"type": "text", "text": " Look: "}, {"type": "image"}, {"type": "text", "text": "what?"}])],
     "add_generation_prompt": True, "needs_parts": True},
    {"name": "unknown role", "messages": [m(S, "s"), m(U, "u"), m("critic", "c")], "add_generation_prompt": True},
]


def call_fields(messages, form):
    """Messages as a template of this form wants turns with calls: content text, null or absent."""
    out = copy.deepcopy(messages)
    for message in out:
        if message.get("tool_calls") and message["content"] == "":
            if form == "null":
                message["content"] = None
            elif form == "absent":
                del message["content"]
    return out


def render(source, case, bos, eos, form="text"):
    compiled = machinery._compile_jinja_template(source)
    messages = machinery._alias_reasoning_fields(call_fields(case["messages"], form))
    return compiled.render(messages=messages, tools=case.get("tools"), documents=case.get("documents"),
                           add_generation_prompt=case.get("add_generation_prompt", False),
                           **{"bos_token": bos, "eos_token": eos, **case.get("kwargs", {})})


def empty_content_form(source, bos, eos):
    """The first way to write empty content under which the template shows a call (as ChatTemplate finds it)."""
    probe = {"messages": [m(U, "a"), m(A, "", tool_calls=[{"id": "abcdefgh9", "type": "function", "function": {
        "name": "zqprobe", "arguments": {"k": "v"}}}]), m(T, "r", tool_call_id="abcdefgh9", name="t")]}
    probe["add_generation_prompt"] = True
    for form in ("text", "null", "absent"):
        try:
            out = render(source, probe, bos, eos, form)
        except Exception:
            continue
        if "zqprobe" in out and "None" not in out and "'text'" not in out:
            return form
    return "text"


def takes_parts(source, bos, eos):
    try:
        out = render(source, {"messages": [m(U, [{"type": "text", "text": "zqprobe"}])], "add_generation_prompt": True}, bos, eos)
    except Exception:
        return False
    return "zqprobe" in out and "'text'" not in out


def template_cases(source, bos, eos):
    form = empty_content_form(source, bos, eos)
    parts = takes_parts(source, bos, eos)
    out = []
    for case in CASES:
        if case.get("needs_parts") and not parts:
            continue
        row = {k: v for k, v in case.items() if k != "needs_parts"}
        try:
            row["prompt"] = render(source, case, bos, eos, form)
        except jinja2.exceptions.TemplateError as e:
            if type(e) is jinja2.exceptions.TemplateError:
                row["refused"] = str(e)
            else:
                row["fails"] = True
        except Exception:
            row["fails"] = True
        out.append(row)
    return out


def own_templates():
    files = {}
    for path in sorted(TEMPLATES.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        bos, eos = "<s>", "</s>"
        files[f"template_{path.stem}.json"] = {"file": path.name, "bos_token": bos, "eos_token": eos,
                                               "cases": template_cases(source, bos, eos)}
    return files


def named_templates():
    """The table of src/chat/named_templates.cpp."""
    text = (ROOT / "src/chat/named_templates.cpp").read_text(encoding="utf-8")
    sources = dict(re.findall(r'constexpr std::string_view (k\w+) =\s*R"\((.*?)\)";', text, re.S))
    files = {}
    for name, constant in re.findall(r'\{"(\w+)", "[^"]*", (k\w+)\}', text):
        files[f"template_named_{name}.json"] = {"named": name, "bos_token": "<s>", "eos_token": "</s>",
                                                "cases": template_cases(sources[constant], "<s>", "</s>")}
    return files


def model_templates(folder):
    import gguf

    files = {}
    for path in sorted(pathlib.Path(folder).glob("*.gguf")):
        reader = gguf.GGUFReader(path)
        field = reader.fields.get("tokenizer.chat_template")
        if field is None:
            continue
        source = field.contents()
        files[f"model_{path.stem}.json"] = {"file": path.name, "sha256": hashlib.sha256(source.encode()).hexdigest(),
                                            "bos_token": "<s>", "eos_token": "</s>",
                                            "cases": template_cases(source, "<s>", "</s>")}
    return files


def expressions():
    """tests/data/chat/expressions.txt: one template a line (\\n stands for a newline); '#' starts a comment line."""
    context = {
        "n": 7, "z": 0, "f": 2.5, "big": 1e22, "s": "Hello World", "u": "héllo wörld ßtraße ΑΣ 你好 🌍", "e": "",
        "l": [3, 1, 2], "w": ["banana", "apple", "Cherry", "apple"], "t": True, "no": False, "nil": None,
        "d": {"b": 2, "a": 1, "C": 3, "items_": [1, 2], "nested": {"x": [1, {"y": "z"}]}},
        "rows": [{"n": "x", "v": 3, "tag": "p"}, {"n": "y", "v": 1, "tag": "q"}, {"n": "Z", "v": 2, "tag": "p"}],
        "ml": "one\ntwo\n\nthree\r\nfour", "ctl": "a\tb\\c\"d'e\u0000\u001f\u007f\u2028\u00a0",
    }
    rows = []
    for line in (TEMPLATES / "expressions.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("# "):
            continue
        row = {"source": line.replace("\\n", "\n")}
        try:
            row["out"] = machinery._compile_jinja_template(row["source"]).render(
                messages=[], tools=None, documents=None, add_generation_prompt=False, bos_token="<s>", eos_token="</s>",
                **context)
        except jinja2.exceptions.TemplateError as e:
            row["refused" if type(e) is jinja2.exceptions.TemplateError else "fails"] = str(e)
        except Exception as e:
            row["fails"] = f"{type(e).__name__}: {e}"
        rows.append(row)
    return {"expressions.json": {"context": context, "rows": rows}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--models")
    options = parser.parse_args()
    files = {**own_templates(), **named_templates(), **expressions()}
    if options.models:
        files.update(model_templates(options.models))
    differing = 0
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = json.dumps(content, ensure_ascii=False, indent=0) + "\n"
        path = GOLDEN / name
        if options.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                differing += 1
                print(f"{name}: differs", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
    for name, content in files.items():
        rows = content.get("cases", content.get("rows"))
        counts = [sum(key in row for row in rows) for key in ("prompt", "out", "refused", "fails")]
        print(f"{name}: {counts[0] + counts[1]} rendered, {counts[2]} refused, {counts[3]} failing")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
