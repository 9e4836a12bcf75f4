"""What page_test.py is written with: a server, a page of it, and the usual steps of a user."""
import json
import re
import signal
import subprocess
import time
import urllib.request

CHAT = "*/v1/chat/completions"
LONG = "Write a very long story about a lighthouse, its keeper and the sea."
IDLE = "document.querySelector('#stop').hidden && document.querySelectorAll('.message.assistant').length > 0"


class Server:
    """`tokamak serve` on a free port; ends with the `with` block."""

    def __init__(self, program, model, *flags):
        self.process = subprocess.Popen([program, "serve", model, "--port", "0", "--ctx-size", "2048", *flags],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"answers at (http://\S+)", line):
                self.url = found[1] + "/"
                return
        raise SystemExit("page_test: the server did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()


class Context:
    def __init__(self, browser, server, program, model, out):
        self.browser, self.server, self.program, self.model, self.out = browser, server, program, model, out

    def page(self, **options):
        page = self.browser.page(self.server.url, **options)
        page.wait("document.querySelector('#status').dataset.health === 'ok'")
        return page

    def shot(self, page, name):
        page.screenshot(self.out / f"{name}.png")


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def clean(page):
    expect(not page.problems, f"the console says: {page.problems}")


def settings(page, **values):
    """Types into the settings; "" empties a field."""
    page.click("#open-settings")
    for name, value in values.items():
        page.js(f"document.querySelector('#set-{name}').select()")
        page.key("Backspace")
        page.type(str(value))
    page.key("Escape")
    page.wait("!document.querySelector('#settings').open")


def ask(page, text, wait=True):
    if page.js("document.activeElement.id") != "prompt":
        page.click("#prompt")
    page.type(text)
    page.key("Enter")
    if wait:
        page.wait(IDLE, 120)


def choose(page, box, value):
    page.js(f"document.querySelector('#{box}').value = '{value}'; "
            f"document.querySelector('#{box}').dispatchEvent(new Event('change'))")


def tab_to(page, name):
    """Presses Tab until the focus is on `name`; gives everything on the way."""
    order = []
    while not order or order[-1] != name:
        expect(len(order) < 80, f"Tab reaches {name}: {order}")
        page.key("Tab")
        order.append(page.js("document.activeElement.id || document.activeElement.getAttribute('aria-label') || "
                             "document.activeElement.innerText || document.activeElement.tagName"))
        expect(page.js("document.activeElement.matches('body, #prompt') || "
                       "getComputedStyle(document.activeElement).outlineStyle !== 'none'"), f"the focus can be seen: {order[-1]}")
    return order


def stream(*deltas, finish="stop", error=None):
    """A chat stream as the server would send it."""
    lines = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]} if error is None else {"error": error})
    text = "".join(f"data: {json.dumps(line)}\n\n" for line in lines)
    return 200, "text/event-stream", text + ("data: [DONE]\n\n" if error is None else "")


def wait_for(ready, seconds=10):
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        time.sleep(0.05)


def server_json(context, path):
    return json.load(urllib.request.urlopen(context.server.url + path))
