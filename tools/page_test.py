#!/usr/bin/env python3
"""Drives the web page of `tokamak serve` in a real headless Chromium and looks at what a user would see.

    tools/page_test.py MODEL.gguf [--bin build/release/bin] [--out FOLDER] [--only NAME]

Types, clicks and reads as a user does; texts that no model writes on demand (hostile markup, thoughts, calls, errors) are
put in place of the server's stream. Screenshots of every state go to FOLDER (default: build/page). Needs the packages of
the group `page` in scripts/packages.txt and no Python package.
"""
import argparse
import json
import pathlib
import re
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import CONTROL, SHIFT, Browser  # noqa: E402
from page_audits import CONTRAST, NAMELESS, OVERFLOW  # noqa: E402
from page_helpers import (  # noqa: E402
    CHAT, IDLE, LONG, Context, Server, ask, choose, clean, expect, server_json, settings, stream, tab_to, wait_for)

MARKDOWN = pathlib.Path(__file__).with_name("page_test_text.md").read_text()
HOSTILE = [
    "<img src=x onerror=\"window.hurt=1\">", "<script>window.hurt=1</script>", "[click](javascript:window.hurt=1)",
    "<svg/onload=window.hurt=1>", "![x](http://127.0.0.1:9/picture.png)", "`<b>`<iframe srcdoc='<script>1</script>'>",
    "[a](https://example.org/\"onmouseover=\"window.hurt=1)", "</div></article><h1>out</h1>",
]


# --- what is tested; each gets a page of its own ---


def test_start(context):
    page = context.page()
    expect("What shall we talk about" in page.text("#empty"), "the start says what to do")
    expect(page.js("document.activeElement.id") == "prompt", "writing can begin at once")
    page.click("#open-settings")
    expect(page.js("document.querySelector('#set-temperature').placeholder") == "0.8", "the server's values are shown")
    context.shot(page, "settings")
    page.key("Escape")
    context.shot(page, "start")
    page.click("#suggestions button:last-child")
    expect(page.js("document.querySelector('#prompt').value").startswith("Compare"), "a suggestion fills the box")
    expect(all(address.startswith(context.server.url) for address in page.addresses), f"asks only its server: {page.addresses}")
    clean(page)


def test_answer_streams(context):
    page = context.page()
    settings(page, temperature="0", max_tokens="100")
    ask(page, "Write a Python function that adds two numbers, and explain it.", wait=False)
    seen = {page.wait("document.querySelector('.message.assistant .markdown:not(.thoughts *)')?.innerText.length")}
    while not page.js(IDLE):
        seen.add(page.js("document.querySelector('.message.assistant .foot').previousSibling.parentNode.innerText.length"))
    expect(len(seen) > 3, f"the text grows bit by bit: {sorted(seen)}")
    expect(float(page.text("[data-stat=rate]").split()[0]) > 0, "tokens per second are shown")
    expect("100 tokens" in page.text("[data-stat=generated]"), "so are tokens")
    expect("first after" in page.text("[data-stat=first]"), "and the time to the first")
    expect("cut off" in page.text("[data-stat=finish]"), "the end is explained")
    ask(page, "And now three numbers.")
    cached = [int(n) for n in re.findall(r"\d+", page.texts("[data-stat=cached]")[1])]
    expect(cached[0] > 100 and cached[0] < cached[1], f"the second prompt finds the first in the cache: {cached}")
    context.shot(page, "answer")
    clean(page)


def test_timeline(context):
    page = context.page()
    settings(page, temperature="0", max_tokens="60", seed="1")
    page.click("#prompt")
    page.paste(f"{time.time()} is new to the cache. " + "".join(f"Lighthouse {i} stands at the sea. " for i in range(120)))
    ask(page, "Which one?", wait=False)
    state = page.wait("document.querySelector('.message.assistant progress:not([hidden])')?.parentNode.innerText")
    expect(re.match(r"Reading the prompt: \d+ of \d{4} tokens", state), f"how far the prompt has been read: {state}")
    context.shot(page, "prompt")
    page.wait(IDLE, 60)
    page.click(".chart-button")
    page.wait("document.querySelector('.timeline svg')")
    ticks = page.js("document.querySelector('.timeline path').getAttribute('d').match(/M/g).length")
    tokens = int(page.text("[data-stat=generated]").split()[0])
    expect(1 < ticks <= tokens, f"a tick for each token that brought text: {ticks} of {tokens}")
    expect(page.js("document.querySelectorAll('.timeline rect title').length") >= 3, "the parts of the prompt are bars")
    expect("longest gap" in page.text(".timeline"), "with its numbers")
    context.shot(page, "timeline")
    with tempfile.TemporaryDirectory() as folder:
        page.downloads_to(folder)
        for button, name, magic in ((1, "timeline.svg", b"<svg"), (2, "timeline.png", b"\x89PNG")):
            page.click(f".timeline button:nth-of-type({button})")
            wait_for(lambda: (pathlib.Path(folder) / name).exists())
            expect((pathlib.Path(folder) / name).read_bytes().startswith(magic), f"{name} can be saved")
    page.reload()
    page.wait("document.querySelector('.chart-button')")
    page.click(".chart-button")
    expect(page.wait("document.querySelectorAll('.timeline rect title').length") >= 3, "it is there after a reload")
    clean(page)


def test_stop(context):
    page = context.page()
    settings(page, temperature="0", max_tokens="1500")
    for how in ("Escape", "click"):
        ask(page, LONG, wait=False)
        page.wait("[...document.querySelectorAll('.message.assistant > .markdown')].at(-1)?.innerText.length > 40")
        if how == "click":
            context.shot(page, "running")
            page.click("#stop")
        else:
            page.key("Escape")
        page.wait(IDLE, 5)
        expect(page.texts("[data-stat=finish]")[-1] == "stopped", "it says that it was stopped")
        expect(page.js("[...document.querySelectorAll('.message.assistant > .markdown')].at(-1).innerText.length") > 40, "the text stays")
        wait_for(lambda: not any(slot["is_processing"] for slot in server_json(context, "slots")), 3)
        expect(page.js("document.activeElement.id") == "prompt", "the focus returns to the box")
    clean(page)


def test_history(context):
    page = context.page()
    settings(page, temperature="0", max_tokens="12")
    ask(page, "The first conversation")
    page.key("O", CONTROL | SHIFT)
    page.wait("document.querySelectorAll('.message').length === 0")
    ask(page, "The second\nconversation")
    before = page.text("#messages")
    expect("The second\nconversation" in before, "Shift+Enter starts a line")
    page.reload()
    expect(page.wait("document.querySelectorAll('.message').length === 2"), "the open conversation is back")
    expect(page.text("#messages") == before, "as it was")
    expect(page.texts("#history .open") == ["The second", "The first conversation"], "both are listed")
    page.click("#history li:nth-child(2) .open")
    page.wait("document.querySelector('.bubble').innerText === 'The first conversation'")
    page.click("#history li.current [data-key^=name]")
    page.type("Renamed")
    page.key("Enter")
    page.wait("document.querySelector('#title').innerText === 'Renamed'")
    context.shot(page, "history")
    with tempfile.TemporaryDirectory() as folder:
        page.downloads_to(folder)
        page.click("#export-all")
        file = pathlib.Path(folder) / "tokamak-conversations.json"
        wait_for(file.exists)
        time.sleep(0.2)
        page.click("#history li.current [data-key^=delete]")
        page.wait("document.querySelector('#confirm').open")
        context.shot(page, "confirm")
        page.click("#confirm-yes")
        page.wait("document.querySelectorAll('#history .open').length === 1")
        node = page.call("Runtime.evaluate", expression="document.querySelector('#import-file')")["result"]["objectId"]
        page.call("DOM.setFileInputFiles", files=[str(file)], objectId=node)
        page.wait("document.querySelector('#history-note').innerText === 'Imported 2 conversations.'")
        expect("Renamed" in page.texts("#history .open"), "what was deleted is back")
        bad = pathlib.Path(folder) / "bad.json"
        bad.write_text("{")
        page.call("DOM.setFileInputFiles", files=[str(bad)], objectId=node)
        page.wait("document.querySelector('#history-note').innerText === 'This file is not JSON.'")
    clean(page)


def test_edit_and_regenerate(context):
    page = context.page()
    settings(page, max_tokens="8", seed="1")
    ask(page, "One")
    ask(page, "Two")
    expect(len(page.texts(".message")) == 4, "two questions and answers")
    page.key("ArrowUp")
    page.wait("document.activeElement.value === 'Two'")
    page.key("Escape")
    page.wait("document.querySelectorAll('.editor').length === 0")
    page.click(".message.user [aria-label^=Edit]")
    page.type(" and more")
    context.shot(page, "edit")
    page.key("Enter")
    page.wait("document.querySelectorAll('.message').length === 2 && document.querySelector('#stop').hidden", 30)
    expect(page.text(".bubble") == "One and more", "the edited message takes the place of what followed")
    text = page.text(".message.assistant > .markdown")
    page.click("[aria-label='Go on']")
    page.wait(f"{IDLE} && document.querySelector('.message.assistant > .markdown').innerText.length > {len(text)}")
    expect(page.text(".message.assistant > .markdown").startswith(text), "an answer that was cut off goes on")
    page.script(CHAT, stream({"content": "Another answer"}))
    page.click("[aria-label='Answer again']")
    page.wait("document.querySelector('.message.assistant').innerText.includes('Another answer')")
    expect(len(page.texts(".message")) == 2, "the answer was replaced")
    clean(page)


def test_markdown(context):
    page = context.page(height=1500)
    page.script(CHAT, stream(*({"content": MARKDOWN[i:i + 7]} for i in range(0, len(MARKDOWN), 7))))
    ask(page, "Show me everything.")
    body = ".message.assistant > .markdown "
    for selector, text in (("h3", "Heading"), ("strong", "bold"), ("em", "italic"), ("del", "gone"), ("code", "code"),
                           ("ol > li > ul > li strong", "item"), ("blockquote em", "text"), ("td.right", "1"),
                           ("pre code .code-word", "def"), ("a[href='https://example.org/a_(b)']", "link")):
        expect(page.text(body + selector) == text, f"{selector} is {text}, not {page.text(body + selector)}")
    expect(page.js(f"document.querySelectorAll('{body} ol').length") == 1, "one ordered list")
    expect(page.js(f"[...document.querySelectorAll('{body} .task input')].map((n) => n.checked).join()") == "true,false", "tasks")
    expect(page.js(f"document.querySelector('{body} a').rel").startswith("noopener"), "links do not tell where they come from")
    page.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
                      browserContextId=page.context)
    page.click(".markdown > .code [aria-label='Copy code']")
    page.wait("document.querySelector('#announcer').innerText === 'Copied'")
    copied = page.js("navigator.clipboard.readText()")
    expect(copied.startswith("def greet(name):\n    # says hello"), f"code is copied as it is: {copied}")
    context.shot(page, "markdown")
    clean(page)


def test_hostile_text_stays_text(context):
    page = context.page()
    text = "\n\n".join(HOSTILE)
    page.script(CHAT, stream({"reasoning_content": text}, {"content": text}, {"tool_calls": [
        {"index": 0, "id": "1", "function": {"name": HOSTILE[0], "arguments": HOSTILE[1]}}]}))
    ask(page, HOSTILE[0] + HOSTILE[1])
    page.js("document.querySelector('.thoughts').open = true")
    time.sleep(0.3)
    expect(page.js("window.hurt") is None, "nothing was run")
    for tag in ("img", "script", "iframe", "h1", "b"):
        expect(page.js(f"document.querySelectorAll('#messages {tag}').length") == 0, f"no {tag} was made")
    expect(page.text(".bubble") == HOSTILE[0] + HOSTILE[1], "the user's text is shown as written")
    expect(HOSTILE[0] in page.text(".message.assistant > .markdown"), "so is the model's")
    links = page.js("[...document.querySelectorAll('#messages a')].map((a) => a.protocol)")
    expect(set(links) <= {"http:", "https:"}, f"links are harmless: {links}")
    expect(not [a for a in page.addresses if "picture" in a], "no picture was asked for")
    page.reload()
    page.wait("document.querySelector('.bubble')")
    expect(page.js("window.hurt") is None, "nor after a reload")
    context.shot(page, "hostile")
    clean(page)


def test_thoughts_and_calls(context):
    page = context.page()
    call = [{"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": "{\"city\":"}}]
    page.script(CHAT, stream({"reasoning_content": "The user wants **weather**."}, {"tool_calls": call},
                             {"tool_calls": [{"index": 0, "function": {"arguments": "\"Paris\"}"}}]}, finish="tool_calls"),
                stream({"content": "It is sunny in Paris."}))
    ask(page, "How is the weather in Paris?")
    expect(not page.js("document.querySelector('.thoughts').open"), "thoughts are folded away")
    page.click(".thoughts summary")
    expect("The user wants weather." in page.text(".thoughts"), "and can be read")
    expect(page.text(".call pre") == "{\n  \"city\": \"Paris\"\n}", "the call is a block of its own")
    context.shot(page, "call")
    page.click(".results textarea")
    page.type("sunny, 24 degrees")
    page.click(".results button")
    page.wait("document.querySelector('#messages').innerText.includes('It is sunny in Paris.')")
    expect(page.js("document.querySelectorAll('.message.tool').length") == 1, "the result is part of the conversation")
    clean(page)


def test_calls_of_the_model(context):
    page = context.page()
    settings(page, temperature="0", max_tokens="40")
    page.click("#open-settings")
    page.click("#set-tools")
    page.paste('''[{"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]}}}]''')
    choose(page, "set-tool-choice", "required")
    page.key("Escape")
    ask(page, "How is the weather in Paris?")
    expect(page.text(".call .name") == "weather", "the model calls the tool")
    expect(list(json.loads(page.text(".call pre"))) == ["city"], "with its arguments")
    clean(page)


def test_errors(context):
    page = context.page()
    error = {"message": "the device does not answer", "type": "server_error", "param": None, "code": None}
    page.script(CHAT, stream({"content": "Half an ans"}, error=error), (429, "application/json", json.dumps(
        {"error": {"message": "the queue is full: come back in 3 seconds", "type": "rate_limit_error"}})))
    ask(page, "Hello")
    expect("the device does not answer" in page.text(".error-box:not(#trouble)"), "errors inside a stream are shown in the server's words")
    expect("Half an ans" in page.text(".message.assistant"), "with what came before")
    page.click(".message .error-box button")
    page.wait("document.querySelector('.message .error-box')?.innerText.includes('the queue is full: come back in 3 seconds')")
    settings(page, max_tokens="4")
    page.click(".message .error-box button")
    page.wait(IDLE)
    expect(page.text(".message .error-box") is None, "trying again works")
    settings(page, top_p="7")
    page.click("#open-settings")
    page.click("#set-top_p")
    page.type("7")
    expect("from 0 to 1" in page.text("#settings .invalid:not(:empty)"), "bad numbers are refused at the field")
    page.key("Escape")
    page.problems = [p for p in page.problems if "429" not in p]
    clean(page)


def test_key(context):
    with Server(context.program, context.model, "--api-key", "right") as server:
        page = context.browser.page(server.url)
        page.wait("document.querySelector('#status').dataset.health === 'key'")
        expect("needs an API key" in page.text("#status-text"), "the header says what is missing")
        settings(page, max_tokens="4", key="wrong")
        ask(page, "Hello")
        expect("the API key is missing or wrong" in page.text(".message .error-box"), "in the server's words")
        context.shot(page, "key")
        page.click(".message .error-box input")
        page.js("document.querySelector('.message .error-box input').select()")
        page.type("right")
        page.key("Enter")
        page.wait("document.querySelector('[data-stat=generated]')")
        page.wait("document.querySelector('#status').dataset.health === 'ok'")
        expect(page.js("Object.values({...localStorage}).join().includes('right')") is False, "the key is not stored")
        expect(page.js("Object.values({...sessionStorage}).includes('right')"), "it is kept for the tab")


def test_unreachable_server(context):
    with Server(context.program, context.model) as server:
        page = context.browser.page(server.url)
        page.wait("document.querySelector('#status').dataset.health === 'ok'")
    ask(page, "Hello")
    expect("cannot be reached" in page.text(".message .error-box"), "a server that is gone is named")
    page.wait("document.querySelector('#status').dataset.health === 'away'")


def test_structured_output(context):
    page = context.page()
    settings(page, max_tokens="120", temperature="1", seed="3")
    schema = '{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer"}},"required":["name","age"]}'
    cases = [("regex", "[0-9]{4}-[0-9]{2}", lambda text: re.fullmatch(r"\d{4}-\d{2}", text)),
             ("grammar", 'root ::= "yes" | "no"', lambda text: text in ("yes", "no")),
             ("schema", schema, lambda text: set(json.loads(text)) == {"name", "age"})]
    for kind, form, fits in cases:
        page.click("#open-settings")
        choose(page, "set-output", kind)
        page.js("document.querySelector('#set-output-text').select()")
        page.type(form)
        if kind == "schema":
            context.shot(page, "structured-settings")
        page.key("Escape")
        expect(page.texts("#active-settings .chip"), "what holds is shown at the box")
        page.key("O", CONTROL | SHIFT)
        ask(page, "Tell me something about a person.")
        text = page.text(".message.assistant pre") or page.text(".message.assistant > .markdown")
        expect(page.text("[data-stat=finish]") or fits(text), f"{kind}: {text}")
    context.shot(page, "structured")
    page.click("#open-settings")
    page.js("document.querySelector('#set-output-text').select()")
    page.type("{")
    expect("not valid JSON" in page.text("#settings .invalid:not(:empty)"), "a broken schema is named")
    page.key("Escape")
    clean(page)


def test_server_panel(context):
    page = context.page()
    settings(page, max_tokens="1500", temperature="0")
    ask(page, LONG, wait=False)
    page.wait("document.querySelector('#status-text').innerText.includes('running')")
    page.click("#status")
    page.wait("document.querySelectorAll('#server-body tbody tr').length === 1")
    for text in ("Takes requests.", "Smollm2", "KV cache", "Memory", "MiB"):
        expect(text.lower() in page.text("#server-body").lower(), f"the panel shows {text}")
    context.shot(page, "server")
    page.key("Escape")
    page.wait("!document.querySelector('#server').open")
    expect(page.js("!document.querySelector('#stop').hidden"), "Escape closed the panel, not the answer")
    page.key("Escape")
    page.wait(IDLE)
    clean(page)


def test_themes(context):
    for dark in (False, True):
        page = context.page(dark=dark, height=1500)
        page.script(CHAT, stream({"reasoning_content": "Hm."}, {"content": MARKDOWN}))
        ask(page, "Show me everything.")
        light = page.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        expect(light != dark, "colours follow the system")
        expect(page.js(CONTRAST) == [], f"text stands out from its ground: {page.js(CONTRAST)}")
        context.shot(page, "dark" if dark else "light")
        page.click("#open-settings")
        expect(page.js(CONTRAST) == [], f"in the settings too: {page.js(CONTRAST)}")
        page.key("Escape")
        page.click("#theme")
        page.click("#theme")
        expect(page.js("document.documentElement.dataset.theme") == "dark", "the switch overrides the system")
        page.reload()
        expect(page.js("document.documentElement.dataset.theme") == "dark", "and is remembered")
        clean(page)


def test_phone(context):
    page = context.page(width=360, height=800, phone=True)
    expect(page.js(OVERFLOW) == [], f"nothing is wider than the screen: {page.js(OVERFLOW)}")
    context.shot(page, "phone-start")
    page.script(CHAT, stream({"content": MARKDOWN}))
    ask(page, "Show me <b>everything</b>, averyveryverylongwordwithoutanyspaceaveryveryverylongword.")
    expect(page.js(OVERFLOW) == [], f"nor in a conversation: {page.js(OVERFLOW)}")
    context.shot(page, "phone")
    settings(page, max_tokens="40")
    ask(page, "Go on.")
    page.click(".message:last-child .chart-button")
    page.wait("document.querySelector('.timeline svg')")
    expect(page.js(OVERFLOW) == [], f"nor the timeline: {page.js(OVERFLOW)}")
    context.shot(page, "phone-timeline")
    page.click("#menu")
    page.wait("document.querySelector('#main').inert")
    context.shot(page, "phone-menu")
    page.key("Escape")
    page.wait("!document.querySelector('#main').inert")
    for name, button in (("settings", "#open-settings"), ("server", "#status")):
        page.click(button)
        page.wait(f"document.querySelector('#{name}').open && document.querySelector('#{name}-body').children.length")
        expect(page.js(OVERFLOW) == [], f"nor {name}: {page.js(OVERFLOW)}")
        context.shot(page, f"phone-{name}")
        page.key("Escape")
    clean(page)


def test_keyboard_only(context):
    page = context.page()
    page.type("Draft. ")  # the box has the focus
    tab_to(page, "open-settings")
    page.key("Enter")
    tab_to(page, "set-max_tokens")
    page.type("12")
    page.key("Escape")
    expect(page.js("document.activeElement.id") == "open-settings", "the focus returns to where it was")
    tab_to(page, "prompt")
    page.type("Hello there")
    page.key("Enter")
    page.wait(IDLE)
    expect(page.text(".bubble") == "Draft. Hello there", "what was typed before is kept")
    tab_to(page, "menu")
    context.shot(page, "focus")
    order = tab_to(page, "prompt")
    for name in ("status", "open-settings", "Copy answer", "Answer again", "Timeline of the run"):
        expect(name in order, f"Tab reaches {name}: {order}")
    expect(order.index("open-settings") < order.index("Copy message") < order.index("Answer again"), "in reading order")
    nameless = page.js(NAMELESS)
    expect(nameless == [], f"everything has a name: {nameless}")
    announced = page.js("document.querySelector('#announcer').innerText")
    expect(announced == "The answer is complete: 12 tokens", f"the end is announced, and nothing else: {announced}")
    clean(page)


def test_motion_can_be_reduced(context):
    page = context.page()
    settings(page, temperature="0", max_tokens="300")
    ask(page, LONG, wait=False)
    expect(page.wait("document.getAnimations().length") > 0, "a running answer moves")
    page.media(reduced_motion=True)
    expect(page.js("document.getAnimations().length") == 0, "unless motion is not wanted")
    page.key("Escape")
    page.wait(IDLE)
    clean(page)


def test_head(context):
    for path in ("", "health"):
        answer = urllib.request.urlopen(urllib.request.Request(context.server.url + path, method="HEAD"))
        expect(int(answer.headers["Content-Length"]) > 10 and answer.read() == b"", f"HEAD /{path} has a length and no body")


def test_switched_off(context):
    with Server(context.program, context.model, "--no-web-page") as server:
        try:
            urllib.request.urlopen(server.url)
            raise AssertionError("the page is still served")
        except urllib.error.HTTPError as error:
            expect(error.code == 404 and b"--no-web-page" in error.read(), "404 with the reason")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--bin", default="build/release/bin", help="folder of the program")
    parser.add_argument("--out", default="build/page", type=pathlib.Path, help="folder for screenshots")
    parser.add_argument("--only", default="", help="tests whose name holds this")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    program = str(pathlib.Path(arguments.bin) / "tokamak")
    tests = [(name[5:], test) for name, test in globals().items() if name.startswith("test_") and arguments.only in name]
    failed = 0
    with Server(program, arguments.model) as server, Browser() as browser:
        context = Context(browser, server, program, arguments.model, arguments.out)
        for name, test in tests:
            start = time.monotonic()
            try:
                test(context)
                print(f"ok      {name} ({time.monotonic() - start:.1f} s)")
            except Exception as error:  # the others still run
                failed += 1
                print(f"FAILED  {name}: {error}")
                if not isinstance(error, AssertionError):
                    traceback.print_exc()
    print(f"page: {len(tests) - failed} of {len(tests)} tests passed; screenshots in {arguments.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
