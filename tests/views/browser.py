"""Headless Chromium over its debugging pipe: no driver, no package, only the browser (Debian: package chromium).

with Browser.start() as browser:
    page = browser.open(path)
    page.evaluate("document.title")
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
    "--force-color-profile=srgb",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def found() -> str | None:
    return os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    def __init__(self, program: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        there, self._to = os.pipe()
        self._from, back = os.pipe()

        def hand_over() -> None:  # the browser reads commands from descriptor 3 and answers on 4
            a, b = os.dup(there), os.dup(back)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=hand_over, pass_fds=(3, 4, there, back),
        )  # fmt: skip
        os.close(there)
        os.close(back)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    @classmethod
    def start(cls) -> Browser:
        program = found()
        assert program is not None
        return cls(program)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        until = time.monotonic() + 5
        while Path(self._profile).exists():  # its helpers end a moment later and may write until then
            shutil.rmtree(self._profile, ignore_errors=True)
            if time.monotonic() > until:
                break
            time.sleep(0.05)

    def call(self, method: str, session: str | None = None, timeout: float = 60, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while True:
            answer = self._message(end, method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return dict(answer.get("result", {}))
            self.events.append(answer)

    def _message(self, end: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise AssertionError(f"Chromium gave no answer to {what}")
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise AssertionError(f"Chromium ended with {self._process.poll()}")
            self._buffer += chunk
        raw, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(raw))

    def open(self, path: Path, width: int = 1440, height: int = 1000, dark: bool = False) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        page.call("Page.enable")
        page.call("Runtime.enable")
        page.call("Network.enable")
        page.size(width, height)
        page.scheme("dark" if dark else "light")
        began = time.monotonic()
        page.call("Page.navigate", url=path.as_uri())
        page.wait("document.documentElement?.dataset.ready === '1'")
        page.seconds = time.monotonic() - began
        page.frame()
        return page


class Page:
    """`seconds`: from the start of loading until the page had drawn itself."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target, self.seconds = browser, session, target, 0.0

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition: str, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"never true: {condition}; {self.errors()}"
            time.sleep(0.02)

    def frame(self) -> None:
        """Wait until what was changed is drawn (observers of what is on screen run then)."""
        self.evaluate("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(f, 30))))")

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def at(self, selector: str) -> tuple[float, float]:
        box = self.evaluate(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        return float(box[0]), float(box[1])

    def hover(self, selector: str) -> None:
        x, y = self.at(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self.at(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.frame()

    def key(self, name: str, code: int = 0) -> None:
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}
        extra: dict[str, Any] = {"windowsVirtualKeyCode": codes.get(name, code)}
        if len(name) == 1 or name == "Enter":
            extra["text"] = "\r" if name == "Enter" else name
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **extra)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, **{k: v for k, v in extra.items() if k != "text"})
        self.frame()

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)
        self.frame()

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def errors(self) -> list[str]:
        """Exceptions and console errors since the browser started."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"])[:500])
            if event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] == "error":
                found.append(json.dumps(event["params"]["args"])[:500])
        return found

    def requests(self) -> list[str]:
        """Addresses that the page asked for, its own not counted."""
        return [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event.get("sessionId") == self.session and event["method"] == "Network.requestWillBeSent"
            and event["params"]["type"] != "Document"
        ]  # fmt: skip
