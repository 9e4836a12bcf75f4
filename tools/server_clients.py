"""The official `openai` and `anthropic` clients against `tokamak serve`: unchanged, synchronous, asynchronous and strict.

Each check is one row of the table: chat, completions, responses, embeddings and messages, streamed and not; tools; structured
output parsed into pydantic models; errors. Every event of every kind of stream is validated in strict mode against the
clients' own models: an unknown event, a missing field or a wrong type fails. Then 64 tasks at once through the
asynchronous clients, each of which must get what it gets alone. Exit status 1 if any check fails.
Usage: server_clients.py MODEL [--tokamak PROGRAM] [--tasks 64] [--only WORD] [--json FILE]
"""

import argparse
import asyncio
import base64
import json
import struct
import sys
import time
import traceback
import typing

import anthropic
import openai
import pydantic
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from openai.types import Completion, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

import server_support as support

MODEL = "any"
CHATS = [{"role": "user", "content": "Name a colour."}]
N = 24
GREEDY = {"extra_body": {"temperature": 0}}  # the anthropic client has no argument for it any more
PARAMETERS = {
    "type": "object",
    "properties": {"town": {"type": "string", "enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["town", "days"], "additionalProperties": False,
}
CHAT_TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather of a town", "parameters": PARAMETERS}}
RESPONSES_TOOL = {"type": "function", "name": "weather", "description": "Weather of a town", "parameters": PARAMETERS, "strict": True}
MESSAGES_TOOL = {"name": "weather", "description": "Weather of a town", "input_schema": PARAMETERS}


class Mood(pydantic.BaseModel):
    mood: typing.Literal["calm", "storm"]
    strength: typing.Literal[1, 2, 3]


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def check_arguments(arguments):
    values = json.loads(arguments) if isinstance(arguments, str) else arguments
    check(values["town"] in ("Rome", "Oslo") and 1 <= values["days"] <= 9, f"arguments {values}")


# --- strict validation of what comes over the wire ---


def variants(union):
    """Classes of a union by the value of their `type`."""
    out = {}
    for one in typing.get_args(union):
        if isinstance(one, type) and "type" in one.model_fields:
            for name in typing.get_args(one.model_fields["type"].annotation):
                out[name] = one
        else:
            out.update(variants(one))
    return out


RESPONSE_EVENTS = variants(ResponseStreamEvent)
MESSAGE_EVENTS = variants(RawMessageStreamEvent)


def strict(model, data):
    return pydantic.TypeAdapter(model).validate_json(data, strict=True)


def strict_event(events, data):
    kind = json.loads(data)["type"]
    check(kind in events, f"event {kind} is not known to the client")
    return strict(events[kind], data)


def raw(port, path, body):
    answer = asyncio.run(support.ask(port, path, body, seconds=300))
    check(answer.status == 200 and not answer.error, f"{path}: {answer.status} {answer.error} {answer.body[:300]!r}")
    return answer


BODIES = {  # a few kinds of answers for each chat API: plain, tools, structured, long prompt with progress
    "/v1/chat/completions": [
        {"messages": CHATS, "max_tokens": N, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 2},
        {"messages": CHATS, "max_tokens": 200, "tools": [CHAT_TOOL], "tool_choice": "required"},
        {"messages": CHATS, "max_tokens": N, "n": 3, "temperature": 1},
        {"messages": CHATS, "max_tokens": 100, "response_format": {"type": "json_schema", "json_schema": {"name": "m", "schema": Mood.model_json_schema()}}},
    ],
    "/v1/responses": [
        {"input": "Name a colour.", "max_output_tokens": N, "include": ["message.output_text.logprobs"], "top_logprobs": 2},
        {"input": "Weather in Rome?", "tools": [RESPONSES_TOOL, {"type": "web_search"}], "tool_choice": "required", "max_output_tokens": 200,
         "reasoning": {"effort": "low", "summary": "auto"}, "parallel_tool_calls": False},
        {"input": "This is a test " * 100, "max_output_tokens": 8, "return_progress": True, "timings_per_token": True,
         "instructions": "Be brief.", "metadata": {"a": "b"}, "truncation": "auto"},
        {"input": "Mood?", "text": {"format": {"type": "json_schema", "name": "m", "strict": True, "schema": Mood.model_json_schema()}}},
    ],
    "/v1/messages": [
        {"messages": CHATS, "max_tokens": N, "system": "Be brief.", "stop_sequences": ["\n\n"]},
        {"messages": CHATS, "max_tokens": 200, "tools": [MESSAGES_TOOL], "tool_choice": {"type": "any"}},
        {"messages": CHATS, "max_tokens": N, "thinking": {"type": "enabled", "budget_tokens": 8}, "return_progress": True},
        {"messages": CHATS, "max_tokens": 100, "output_config": {"format": {"type": "json_schema", "schema": Mood.model_json_schema()}}},
    ],
    "/v1/completions": [{"prompt": "One, two,", "max_tokens": N, "logprobs": 2, "stream_options": {"include_usage": True}}],
}
WHOLE = {"/v1/chat/completions": ChatCompletion, "/v1/responses": Response, "/v1/messages": Message, "/v1/completions": Completion}


def validate_event(path, data):
    if path == "/v1/responses":
        return strict_event(RESPONSE_EVENTS, data)
    if path == "/v1/messages":
        return None if json.loads(data)["type"] == "ping" else strict_event(MESSAGE_EVENTS, data)
    if "chat" in path:
        return strict(ChatCompletionChunk, data)
    # The client has no model for pieces of a text completion; in those of the API finish_reason is null until the end.
    return strict(Completion, data.replace(b'"finish_reason":null', b'"finish_reason":"stop"'))


def strict_answers(port, path):
    n_events = 0
    for body in BODIES[path]:
        body = {"model": MODEL, "temperature": 0, **body}
        streamed = {**body, "stream": True}
        whole_body = {k: v for k, v in body.items() if k != "stream_options"}
        strict(WHOLE[path], raw(port, path, whole_body).body)
        events = raw(port, path, streamed).events
        check(events, "no events")
        for _, data in events:
            validate_event(path, data)
        n_events += len(events)
        if path == "/v1/responses":
            numbers = [json.loads(data)["sequence_number"] for _, data in events]
            check(numbers == list(range(len(numbers))), "sequence numbers")
            kinds = [json.loads(data)["type"] for _, data in events]
            check(kinds[:2] == ["response.created", "response.in_progress"] and kinds.count("response.created") == 1, kinds[:4])
            check(kinds[-1] in ("response.completed", "response.incomplete"), kinds[-1])
    return f"{len(BODIES[path])} answers, {n_events} events"


# --- openai ---


def chat(c):
    whole = c.chat.completions.create(model=MODEL, messages=CHATS, max_tokens=N, temperature=0)
    text, usage = "", None
    for chunk in c.chat.completions.create(model=MODEL, messages=CHATS, max_tokens=N, temperature=0, stream=True,
                                           stream_options={"include_usage": True}):
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        usage = chunk.usage or usage
    check(text == whole.choices[0].message.content and text, f"{text!r} != {whole.choices[0].message.content!r}")
    check(usage.completion_tokens == whole.usage.completion_tokens, "usage")
    return repr(text[:30])


def chat_several(c):
    whole = c.chat.completions.create(model=MODEL, messages=CHATS, max_tokens=8, n=4, temperature=1, seed=3, logprobs=True, top_logprobs=2)
    check(len(whole.choices) == 4, "n")
    check(all(len(choice.logprobs.content[0].top_logprobs) == 2 for choice in whole.choices), "logprobs")
    return f"{len({choice.message.content for choice in whole.choices})} different of 4"


def chat_tools(c):
    arguments = {"model": MODEL, "messages": CHATS, "tools": [CHAT_TOOL], "tool_choice": "required", "parallel_tool_calls": False,
                 "max_tokens": 200, "temperature": 0}
    call = c.chat.completions.create(**arguments).choices[0].message.tool_calls[0]
    check_arguments(call.function.arguments)
    with c.chat.completions.stream(**arguments) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion().choices[0]
    check(final.finish_reason == "tool_calls", final.finish_reason)
    check(final.message.tool_calls[0].function.arguments == call.function.arguments, "streamed arguments")
    answer = c.chat.completions.create(model=MODEL, max_tokens=8, tools=[CHAT_TOOL], messages=[
        *CHATS, {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"}])
    check(answer.choices[0].finish_reason in ("stop", "length", "tool_calls"), answer.choices[0].finish_reason)
    return call.function.arguments


def chat_parse(c):
    parsed = c.chat.completions.parse(model=MODEL, messages=CHATS, response_format=Mood, max_tokens=100).choices[0].message.parsed
    check(isinstance(parsed, Mood), parsed)
    return repr(parsed)


def completions(c):
    whole = c.completions.create(model=MODEL, prompt="One, two,", max_tokens=N, temperature=0).choices[0].text
    text = "".join(chunk.choices[0].text for chunk in
                   c.completions.create(model=MODEL, prompt="One, two,", max_tokens=N, temperature=0, stream=True))
    check(text == whole and text, f"{text!r} != {whole!r}")
    return repr(text[:30])


def responses(c):
    arguments = {"model": MODEL, "input": "Name a colour.", "max_output_tokens": N, "temperature": 0}
    whole = c.responses.create(**arguments)
    text = "".join(e.delta for e in c.responses.create(**arguments, stream=True) if e.type == "response.output_text.delta")
    check(text == whole.output_text and text, f"{text!r} != {whole.output_text!r}")
    with c.responses.stream(**{**arguments, "max_output_tokens": 400}) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    check(final.output_text.startswith(text), "stream helper")
    n = c.responses.input_tokens.count(model=MODEL, input="Name a colour.").input_tokens
    check(n == whole.usage.input_tokens, f"{n} counted, {whole.usage.input_tokens} used")
    return f"{final.status}, {final.usage.output_tokens} tokens"


def responses_tools(c):
    arguments = {"model": MODEL, "tools": [RESPONSES_TOOL], "parallel_tool_calls": False, "temperature": 0, "max_output_tokens": 200}
    first = c.responses.create(**arguments, input="Weather?", tool_choice="required")
    call = next(item for item in first.output if item.type == "function_call")
    check_arguments(call.arguments)
    with c.responses.stream(**arguments, input="Weather?", tool_choice={"type": "function", "name": "weather"}) as stream:
        for _ in stream:
            pass
        again = next(item for item in stream.get_final_response().output if item.type == "function_call")
    check_arguments(again.arguments)
    history = [{"role": "user", "content": "Weather?"}, *[item.model_dump(exclude_none=True) for item in first.output],
               {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    second = c.responses.create(**{**arguments, "max_output_tokens": 16}, input=history)
    check(second.status in ("completed", "incomplete"), second.status)
    return call.arguments


def responses_parse(c):
    parsed = c.responses.parse(model=MODEL, input="Mood?", text_format=Mood, max_output_tokens=100).output_parsed
    check(isinstance(parsed, Mood), parsed)
    return repr(parsed)


def embeddings(c):
    texts = ["a cat", "a dog", "a cat"]
    rows = [row.embedding for row in c.embeddings.create(model=MODEL, input=texts).data]  # the client asks for base64
    floats = [row.embedding for row in c.embeddings.create(model=MODEL, input=texts, encoding_format="float").data]
    check(len(rows) == 3 and rows[0] == rows[2] != rows[1], "equal texts")
    check(max(abs(a - b) for a, b in zip(rows[0], floats[0])) < 1e-6, "base64 and float")
    return f"{len(rows[0])} values"


def strict_embeddings(port):
    for form in ("float", "base64"):
        answer = raw(port, "/v1/embeddings", {"model": MODEL, "input": "a cat", "encoding_format": form})
        if form == "float":
            strict(CreateEmbeddingResponse, answer.body)
        else:
            bytes_ = base64.b64decode(answer.json()["data"][0]["embedding"])
            check(len(struct.unpack(f"<{len(bytes_) // 4}f", bytes_)) > 0, "base64")
    return "float, base64"


def openai_errors(c):
    def refused(kind, call):
        try:
            call()
        except kind as e:
            return e
        raise AssertionError(f"no {kind.__name__}")
    long = refused(openai.BadRequestError, lambda: c.responses.create(model=MODEL, input="word " * 20000))
    check(long.code == "context_length_exceeded", long.code)
    long = refused(openai.BadRequestError, lambda: c.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 20000}]))
    check(long.code == "context_length_exceeded", long.code)
    gone = refused(openai.NotFoundError, lambda: c.responses.create(model=MODEL, input="x", previous_response_id="resp_x"))
    check(gone.param == "previous_response_id", gone.param)
    hot = refused(openai.BadRequestError, lambda: c.chat.completions.create(model=MODEL, messages=CHATS, temperature=-1))
    check(hot.param == "temperature", hot.param)
    check(c.models.list().data[0].id, "models")
    return "codes and fields"


# --- anthropic ---


def messages(c):
    arguments = {"model": MODEL, "messages": CHATS, "max_tokens": N, **GREEDY}
    whole = c.messages.create(**arguments)
    with c.messages.stream(**arguments) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    check(text == whole.content[0].text == final.content[0].text and text, f"{text!r} != {whole.content[0].text!r}")
    check(final.usage.output_tokens == whole.usage.output_tokens, "usage")
    n = c.messages.count_tokens(model=MODEL, messages=CHATS).input_tokens
    check(n == whole.usage.input_tokens + whole.usage.cache_read_input_tokens, f"{n} counted")
    stopped = c.messages.create(**{**arguments, "stop_sequences": [text[2:4]]})
    check(stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == text[2:4], stopped.stop_reason)
    return repr(text[:30])


def messages_tools(c):
    arguments = {"model": MODEL, "messages": CHATS, "max_tokens": 200, **GREEDY, "tools": [MESSAGES_TOOL],
                 "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}}
    whole = c.messages.create(**arguments)
    call = next(block for block in whole.content if block.type == "tool_use")
    check_arguments(call.input)
    check(whole.stop_reason == "tool_use", whole.stop_reason)
    with c.messages.stream(**arguments) as stream:
        again = next(block for block in stream.get_final_message().content if block.type == "tool_use")
    check(again.input == call.input, "streamed input")
    second = c.messages.create(model=MODEL, max_tokens=8, tools=[MESSAGES_TOOL], messages=[
        *CHATS, {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in whole.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]}])
    check(second.stop_reason in ("end_turn", "max_tokens", "tool_use"), second.stop_reason)
    return json.dumps(call.input)


def messages_parse(c):
    parsed = c.messages.parse(model=MODEL, messages=CHATS, max_tokens=100, output_format=Mood).parsed_output
    check(isinstance(parsed, Mood), parsed)
    return repr(parsed)


def messages_errors(c):
    for wrong in ({"messages": [{"role": "user", "content": "word " * 20000}]}, {"max_tokens": 0}, {"extra_body": {"temperature": -1}}):
        try:
            c.messages.create(**{"model": MODEL, "messages": CHATS, "max_tokens": 4, **wrong})
            raise AssertionError(f"{list(wrong)} was accepted")
        except anthropic.BadRequestError as e:
            check(e.body["error"]["type"] == "invalid_request_error", e.body)
    return "invalid_request_error"


def strict_count(port):
    answer = raw(port, "/v1/messages/count_tokens", {"model": MODEL, "messages": CHATS})
    return f"{strict(MessageTokensCount, answer.body).input_tokens} tokens"


# --- many at once ---


async def one_task(o, a, i):
    question = f"Say something about the number {i}."
    kind = i % 6
    chats = [{"role": "user", "content": question}]
    if kind == 0:
        return (await o.chat.completions.create(model=MODEL, messages=chats, max_tokens=N, temperature=0)).choices[0].message.content
    if kind == 1:
        stream = await o.chat.completions.create(model=MODEL, messages=chats, max_tokens=N, temperature=0, stream=True)
        return "".join([(c.choices[0].delta.content or "") async for c in stream if c.choices])
    if kind == 2:
        return (await o.responses.create(model=MODEL, input=question, max_output_tokens=N, temperature=0)).output_text
    if kind == 3:
        stream = await o.responses.create(model=MODEL, input=question, max_output_tokens=N, temperature=0, stream=True)
        return "".join([e.delta async for e in stream if e.type == "response.output_text.delta"])
    if kind == 4:
        return (await a.messages.create(model=MODEL, messages=chats, max_tokens=N, **GREEDY)).content[0].text
    async with a.messages.stream(model=MODEL, messages=chats, max_tokens=N, **GREEDY) as stream:
        return "".join([text async for text in stream.text_stream])


def many(port, n_tasks):
    async def run():
        async with openai.AsyncOpenAI(**client_options(port, "/v1")) as o, anthropic.AsyncAnthropic(**client_options(port)) as a:
            crowd = await asyncio.gather(*[one_task(o, a, i) for i in range(n_tasks)])
            alone = [await one_task(o, a, i) for i in range(0, n_tasks, 8)]
            return crowd, alone
    crowd, alone = asyncio.run(run())
    check(all(crowd), "empty answers")
    check(crowd[::8] == alone, "answers differ alone and in a crowd")
    return f"{n_tasks} answers, {len(alone)} compared with those alone"


def client_options(port, path=""):
    return {"base_url": f"http://127.0.0.1:{port}{path}", "api_key": "none", "timeout": 300, "max_retries": 0}


def name_of(function):
    return function.__name__.replace("openai_", "").replace("_", " ")


def checks(port, n_tasks):
    o = openai.OpenAI(**client_options(port, "/v1"))
    a = anthropic.Anthropic(**client_options(port))
    rows = [(f"openai {name_of(f)}", f, o) for f in (
        chat, chat_several, chat_tools, chat_parse, completions, responses, responses_tools, responses_parse, embeddings, openai_errors)]
    rows += [(f"anthropic {name_of(f)}", f, a) for f in (messages, messages_tools, messages_parse, messages_errors)]
    rows += [(f"strict {path}", lambda p, path=path: strict_answers(p, path), port) for path in BODIES]
    rows += [("strict /v1/embeddings", strict_embeddings, port), ("strict /v1/messages/count_tokens", strict_count, port)]
    rows += [(f"{n_tasks} asynchronous tasks", lambda p: many(p, n_tasks), port)]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokamak", default=support.TOKAMAK)
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--only", default="", help="run checks whose name holds this")
    parser.add_argument("--json", help="write the rows here")
    arguments = parser.parse_args()
    server = support.tokamak_server(arguments.tokamak, arguments.model, "--ctx-size", "4096")
    rows = []
    try:
        for name, function, argument in checks(server.port, arguments.tasks):
            if arguments.only not in name:
                continue
            start = time.perf_counter()
            try:
                ok, detail = True, function(argument)
            except Exception as e:  # a row of the table, whatever it is
                ok, detail = False, f"{type(e).__name__}: {str(e)[:600]}"
                print(traceback.format_exc(limit=-3), file=sys.stderr)
            rows.append({"check": name, "ok": ok, "seconds": round(time.perf_counter() - start, 2), "detail": detail})
            print(f"| {name} | {'ok' if ok else 'FAILED'} | {rows[-1]['seconds']} s | {detail} |", flush=True)
    finally:
        status = server.stop()
    n_failed = sum(not row["ok"] for row in rows)
    print(f"\nopenai {openai.__version__}, anthropic {anthropic.__version__}, commit {support.commit()}: "
          f"{len(rows) - n_failed} of {len(rows)} checks passed; the server ended with status {status}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 1 if n_failed or status != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
