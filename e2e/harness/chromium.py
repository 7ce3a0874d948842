"""Debian's Chromium, headless, driven over the Chrome DevTools Protocol: as much of it as the tests need.

A `Browser` is one process with a profile of its own in a temporary folder; a `Page` is one window. Nothing here sleeps
to wait for a page: `Page.wait` looks at a condition inside the page until it holds. What a page complains about on its
console, what it doesn't catch and what it can't load is kept in `Page.complaints`.
"""
import base64
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from websockets.sync.client import connect

from e2e.harness.children import die_with_parent

START_SECONDS = 60       # until DevTools listens; a cold start on a busy machine is slow
COMMAND_SECONDS = 60     # no answer within this is a failure
WAIT_SECONDS = 20        # until a condition holds, unless the caller knows better
LOOK_MILLISECONDS = 25   # between two looks at a condition; a browser makes 1,000 of it in a hidden page
MESSAGE_BYTES = 64 << 20  # screenshots are large

# What has the focus, inside shadow roots too.
FOCUSED = "(() => { let node = document.activeElement; while (node.shadowRoot?.activeElement) node = node.shadowRoot.activeElement; return node; })()"

FLAGS = (
    "--headless=new", "--remote-debugging-port=0", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
    "--disable-extensions", "--disable-component-update", "--disable-background-networking", "--disable-sync",
    "--disable-default-apps", "--disable-dev-shm-usage", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb",
    "--password-store=basic", "--lang=en-GB",
    # Each window's address bar would load two pages of its own, which take more than half of what a page here takes.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
)


class BrowserError(Exception):
    """The browser doesn't do what it is told, or a page isn't what it should be."""


class Browser:
    """One Chromium. A context manager: at the end the process and its profile are gone."""

    def __init__(self, program: str = "chromium") -> None:
        found = shutil.which(program)
        if found is None:
            raise BrowserError(f"{program} isn't installed: apt-get install chromium")
        self.program = found

    def __enter__(self) -> Self:
        self.folder = tempfile.mkdtemp(prefix="campanile-browser-")
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_reason: object) -> None:
        if getattr(self, "connection", None):
            with contextlib.suppress(BrowserError):
                self.connection.call("Browser.close")
            self.connection.close()
        if getattr(self, "process", None):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
            # What is left of it: its children belong to its group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        # A child that is still dying may write once more.
        for _ in range(20):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                break
            time.sleep(0.1)

    def _start(self) -> None:
        flags = [*FLAGS, f"--user-data-dir={self.folder}/profile"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # root may not have one
        self.log = os.path.join(self.folder, "chromium.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [self.program, *flags, "about:blank"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, env={**os.environ, "HOME": self.folder}, preexec_fn=die_with_parent)
        self.connection = _Connection(self._address())

    def _address(self) -> str:
        """The browser writes its port and path into its profile when it listens."""
        path = os.path.join(self.folder, "profile", "DevToolsActivePort")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError, ValueError):
                with open(path, encoding="ascii") as file:
                    port, target = file.read().split()
                return f"ws://127.0.0.1:{port}{target}"
            time.sleep(0.02)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            raise BrowserError(f"Chromium didn't start:\n{log.read()[-2000:]}")

    def page(self, url: str = "about:blank", *, width: int = 1280, height: int = 800) -> "Page":
        """A new window of its own, so that no page hides another."""
        target = self.connection.call(
            "Target.createTarget", {"url": "about:blank", "newWindow": True, "width": width, "height": height})["targetId"]
        page = Page(self, target)
        page.size(width, height)
        if url != "about:blank":
            page.go(url)
        return page


class _Connection:
    """The one WebSocket to the browser; commands of all pages go over it. A thread reads."""

    def __init__(self, address: str) -> None:
        self.opened = contextlib.ExitStack()
        self.socket = self.opened.enter_context(connect(
            address, max_size=MESSAGE_BYTES, compression=None, proxy=None, open_timeout=START_SECONDS, ping_interval=None))
        self.lock = threading.Lock()
        self.next = 0
        self.waiting: dict[int, concurrent.futures.Future[Any]] = {}
        self.listeners: dict[str, Callable[[str, Any], None]] = {}
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def call(
            self, method: str, parameters: dict[str, Any] | None = None, session: str | None = None, seconds: float = COMMAND_SECONDS,
    ) -> Any:
        answer: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self.lock:
            self.next += 1
            number = self.next
            self.waiting[number] = answer
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        self.socket.send(json.dumps(message))
        try:
            return answer.result(seconds)
        except concurrent.futures.TimeoutError:
            raise BrowserError(f"{method}: no answer within {seconds} s") from None

    def _read(self) -> None:
        with contextlib.suppress(Exception):
            for text in self.socket:
                message = json.loads(text)
                if "id" in message:
                    self._settle(message)
                elif message.get("sessionId") in self.listeners:
                    self.listeners[message["sessionId"]](message["method"], message.get("params", {}))
        with self.lock:
            left, self.waiting = list(self.waiting.values()), {}
        for answer in left:
            answer.set_exception(BrowserError("the browser is gone"))

    def _settle(self, message: dict[str, Any]) -> None:
        with self.lock:
            answer = self.waiting.pop(message["id"], None)
        if answer is None:
            return
        if "error" in message:
            answer.set_exception(BrowserError(message["error"].get("message", "refused")))
        else:
            answer.set_result(message.get("result", {}))

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.opened.close()


class Page:
    """One window."""

    def __init__(self, browser: Browser, target: str) -> None:
        self.browser, self.target = browser, target
        self.complaints: list[str] = []
        self.requested: list[str] = []
        connection = browser.connection
        self.session = connection.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        connection.listeners[self.session] = self._hear
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        # A window in the background is focused in its own eyes, so that :focus-visible and timers are as in front.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> Any:
        return self.browser.connection.call(method, parameters, self.session)

    def _hear(self, method: str, event: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requested.append(event["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details.get("text", "exception"))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(one.get("value", one.get("description"))) for one in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            entry = event["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}".strip())

    def take_complaints(self, expected: Iterable[str] = ()) -> list[str]:
        """What the page complained about since it was last asked, without what contains one of the texts `expected`."""
        taken, self.complaints = self.complaints, []
        return [one for one in taken if not any(text in one for text in expected)]

    # --- going and looking

    def go(self, url: str) -> None:
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise BrowserError(f"{url}: {failed}")
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def before_load(self, script: str) -> None:
        """Runs in every document of this page from now on, before its own scripts."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def accessible(self, selector: str) -> tuple[str, str] | None:
        """(role, name) of an element, as an assistive program sees it; None if it doesn't see it."""
        self.call("Accessibility.enable")
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        seen = self.call("Accessibility.getPartialAXTree", nodeId=node, fetchRelatives=False)["nodes"][0]
        if seen["ignored"]:
            return None
        return seen["role"]["value"], seen.get("name", {}).get("value", "")

    def nameless(self) -> list[str]:
        """The roles of controls that have no name for an assistive program."""
        self.call("Accessibility.enable")
        controls = {"button", "textbox", "checkbox", "radio", "switch", "link", "dialog", "combobox", "slider"}
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [one["role"]["value"] for one in nodes
                if not one["ignored"] and one["role"]["value"] in controls and not one.get("name", {}).get("value")]

    def reload(self) -> None:
        self.evaluate("window.beforeReload = true")
        self.call("Page.reload")
        self.wait("!window.beforeReload && document.readyState === 'complete'")

    def back(self) -> None:
        """One step back in the history. The page has answered before it is left."""
        self.evaluate("void setTimeout(() => history.back())")

    def evaluate(self, expression: str, seconds: float = COMMAND_SECONDS) -> Any:
        """The value of an expression; a promise is awaited."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True, "userGesture": True}
        result = self.browser.connection.call("Runtime.evaluate", asked, self.session, seconds)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(f"{expression}\n  {details.get('exception', {}).get('description', details.get('text'))}")
        return result["result"].get("value")

    def wait(self, condition: str, seconds: float = WAIT_SECONDS, what: str | None = None) -> Any:
        """Until an expression holds in the page, and its value. A page that is being left is looked at again."""
        look = f"""new Promise((resolve, reject) => {{
          const end = performance.now() + {seconds * 1000:.0f};
          const look = () => {{
            let value;
            try {{ value = ({condition}); }} catch {{}}
            if (value) resolve(value);
            else if (performance.now() > end) reject(new Error("not within {seconds} s"));
            else setTimeout(look, {LOOK_MILLISECONDS});
          }};
          look();
        }})"""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.evaluate(look, seconds + COMMAND_SECONDS)
            except BrowserError as error:
                left = "context was destroyed" in str(error) or "navigated" in str(error) or "Cannot find context" in str(error)
                if left and time.monotonic() < deadline:
                    continue
                raise BrowserError(f"{what or condition}: {self._state(error)}") from None

    def _state(self, error: BrowserError) -> str:
        if "not within" not in str(error):
            return str(error)
        with contextlib.suppress(BrowserError):
            text = self.evaluate("`${location.pathname} “${document.title}”\\n${document.body?.innerText ?? ''}`")
            return f"not in time. The page: {text[:1500]}\n  complaints: {self.complaints[-5:]}"
        return "not in time"

    # --- the hands

    def click(self, selector: str) -> None:
        """A real click into the middle of an element, which must be there and not covered. `HOST >>> INNER` is inside a shadow root."""
        node = "document" + ".shadowRoot".join(f".querySelector({json.dumps(one)})" for one in selector.split(" >>> "))
        self.wait(f"{node}.checkVisibility()", what=f"{selector} to click on")
        place = self.evaluate(f"""(() => {{
          const node = {node};
          node.scrollIntoView({{ block: "center", inline: "center", behavior: "instant" }});
          const box = node.getBoundingClientRect();
          const x = box.x + box.width / 2, y = box.y + box.height / 2;
          const top = node.getRootNode().elementFromPoint(x, y);
          return {{ x, y, hit: node.contains(top), top: top?.outerHTML.slice(0, 200) }};
        }})()""")
        if not place["hit"]:
            raise BrowserError(f"{selector} is covered by {place['top']}")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], button="left", clickCount=1)

    KEYS = {
        "Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), " ": (32, " "), "Backspace": (8, ""),
        "ArrowDown": (40, ""), "ArrowUp": (38, ""), "ArrowLeft": (37, ""), "ArrowRight": (39, ""),
    }

    def press(self, key: str, *, shift: bool = False) -> None:
        number, text = self.KEYS[key]
        code = "Space" if key == " " else key
        common = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def tab_to(self, selector: str, *, shift: bool = False, most: int = 80) -> None:
        """Presses Tab until an element has the focus, also inside a shadow root. What has it must be seen to have it."""
        for _ in range(most):
            self.press("Tab", shift=shift)
            if self.evaluate(f"{FOCUSED}.matches({json.dumps(selector)})"):
                break
        else:
            raise BrowserError(f"{most} times Tab don't reach {selector}")
        seen = self.evaluate(f"""(() => {{ const node = {FOCUSED};
          return [node, node.nextElementSibling].some((one) => one && getComputedStyle(one).outlineStyle !== "none"); }})()""")
        if not seen:
            raise BrowserError(f"{selector} has the focus and doesn't show it")

    def type(self, text: str) -> None:
        """Types into what has the focus."""
        self.call("Input.insertText", text=text)

    def fill(self, selector: str, text: str) -> None:
        self.click(selector)
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        self.type(text) if text else self.press("Backspace")

    # --- the surroundings

    def size(self, width: int, height: int, *, scale: float = 1, mobile: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)

    def theme(self, name: str) -> None:
        """`light` or `dark`; motion is reduced, so that a screenshot shows no half of an animation."""
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": name}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def offline(self, is_offline: bool) -> None:
        self.call("Network.emulateNetworkConditions", offline=is_offline, latency=0, downloadThroughput=-1, uploadThroughput=-1)

    def hide(self) -> None:
        """As when the window is minimised: the page's visibilityState becomes hidden."""
        self.call("Emulation.setFocusEmulationEnabled", enabled=False)
        self._window("minimized")
        self.wait("document.visibilityState === 'hidden'", what="the page to be hidden")

    def show(self) -> None:
        self._window("normal")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.wait("document.visibilityState === 'visible'", what="the page to be visible")

    def _window(self, state: str) -> None:
        window = self.call("Browser.getWindowForTarget", targetId=self.target)["windowId"]
        self.call("Browser.setWindowBounds", windowId=window, bounds={"windowState": state})

    def screenshot(self, path: str, *, whole: bool = False) -> None:
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def close(self) -> None:
        self.browser.connection.call("Target.closeTarget", {"targetId": self.target})
