"""Drives Debian's Chromium through its DevTools pipe, with nothing but the standard library."""
import base64
import fcntl
import itertools
import json
import os
import pathlib
import queue
import shutil
import subprocess
import tempfile
import threading
import time

KEYS = {  # name: code of the key, text that it types
    "Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowUp": (38, ""), "ArrowDown": (40, ""),
    "Space": (32, " "), "Backspace": (8, ""),
}
SHIFT, CONTROL = 8, 2


class Browser:
    """One headless Chromium; ends with the `with` block."""

    def __init__(self, program="chromium"):
        if not shutil.which(program):
            raise SystemExit(f"browser: {program} is missing: run scripts/setup.sh page")
        self.profile = tempfile.mkdtemp(prefix="tokamak-page-")
        to_browser, self.commands = os.pipe()
        self.replies, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_browser, from_browser)]

        def place():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--force-color-profile=srgb", f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (to_browser, from_browser, *ends):
            os.close(fd)
        self.ids = itertools.count(1)
        self.waiting = {}
        self.pages = {}
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.profile, ignore_errors=True)

    def _read(self):
        rest = b""
        while piece := os.read(self.replies, 1 << 20):
            *whole, rest = (rest + piece).split(b"\0")
            for text in whole:
                message = json.loads(text)
                if "id" in message:
                    self.waiting[message["id"]].put(message)
                elif page := self.pages.get(message.get("sessionId")):
                    page.event(message["method"], message["params"])

    def call(self, method, session=None, **params):
        number = next(self.ids)
        self.waiting[number] = queue.Queue()
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        try:
            reply = self.waiting[number].get(timeout=60)
        finally:
            del self.waiting[number]
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def page(self, url, **viewport):
        """A page with storage of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, context, url, **viewport)


class Page:
    def __init__(self, browser, session, context, url, width=1280, height=800, phone=False, dark=False):
        self.browser, self.session, self.context = browser, session, context
        self.problems = []  # what the console calls errors, and exceptions
        self.addresses = []  # of everything it asked for
        self.answers = []  # for requests of scripted paths, in order
        browser.pages[session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.viewport(width, height, phone)
        self.media(dark)
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def event(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str([arg.get("value", arg.get("description")) for arg in params["args"]]))
        elif method == "Network.requestWillBeSent":
            self.addresses.append(params["request"]["url"])
        elif method == "Fetch.requestPaused":
            # On a thread of its own: this one has to read the reply.
            threading.Thread(target=self._answer, args=(params,), daemon=True).start()

    def script(self, pattern, *answers):
        """Requests whose address fits `pattern` get these (status, content type, text), one each, then the server again."""
        self.answers += answers
        self.call("Fetch.enable", patterns=[{"urlPattern": pattern}])

    def _answer(self, params):
        if not self.answers:
            self.call("Fetch.continueRequest", requestId=params["requestId"])
            return
        status, kind, text = self.answers.pop(0)
        self.call("Fetch.fulfillRequest", requestId=params["requestId"], responseCode=status,
                  responseHeaders=[{"name": "Content-Type", "value": kind}],
                  body=base64.b64encode(text.encode()).decode())

    def viewport(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)

    def media(self, dark=False, reduced_motion=False):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}])

    def js(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        reply = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in reply:
            raise RuntimeError(f"{expression}: {reply['exceptionDetails']['exception'].get('description')}")
        return reply["result"].get("value")

    def wait(self, expression, seconds=30):
        """Until the expression is true as JavaScript has it; gives its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.js(expression)
            if value not in (None, False, 0, ""):  # {} is an element
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {expression}")
            time.sleep(0.03)

    def texts(self, selector):
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map((n) => n.innerText)")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def key(self, name, modifiers=0):
        code, text = KEYS.get(name, (ord(name.upper()[0]), name if modifiers in (0, SHIFT) else ""))
        params = {"key": " " if name == "Space" else name, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **params)
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    def type(self, text):
        """Key by key; line breaks as Shift+Enter."""
        for char in text:
            if char == "\n":
                self.key("Enter", SHIFT)
            else:
                self.call("Input.dispatchKeyEvent", type="keyDown", key=char, text=char)
                self.call("Input.dispatchKeyEvent", type="keyUp", key=char)

    def paste(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        where = self.js(f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            if (!node) return null;
            node.scrollIntoView({{block: 'nearest', inline: 'nearest'}});
            const r = node.getBoundingClientRect();
            return [r.x + r.width / 2, r.y + r.height / 2, r.width];
        }})()""")
        assert where and where[2] > 0, f"nothing to click: {selector}"
        at = {"x": where[0], "y": where[1], "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=where[0], y=where[1])
        self.call("Input.dispatchMouseEvent", type="mousePressed", **at)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **at)

    def downloads_to(self, folder):
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder),
                          browserContextId=self.context)

    def reload(self):
        self.js("window.beforeReload = true")
        self.call("Page.reload")
        self.wait("!window.beforeReload && document.readyState === 'complete'")

    def screenshot(self, path):
        """As .png or .webp, by the path's ending."""
        path = pathlib.Path(path)
        time.sleep(0.1)
        data = self.call("Page.captureScreenshot", format=path.suffix[1:])["data"]
        path.write_bytes(base64.b64decode(data))
