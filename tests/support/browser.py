"""A headless Chromium driven over its own pipe: pages as people see them, without any further package."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
READY = "document.getElementById('main')?.dataset.ready === 'yes'"
_PATIENCE_S = 60.0
_KEYS = {
    "Escape": 27,
    "ArrowUp": 38,
    "ArrowDown": 40,
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "Enter": 13,
    "Tab": 9,
    "+": 187,
    "0": 48,
    ".": 190,
}


class Browser:
    """One page of one browser; use it as a context manager."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        flags = [
            "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-background-networking", "--hide-scrollbars", f"--user-data-dir={profile}",
            *(["--no-sandbox"] if os.getuid() == 0 else []),
        ]  # fmt: skip
        # The pipe is expected on descriptors 3 and 4, which the shell sets without touching ours.
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, PROGRAM, *flags, "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._ids = itertools.count(1)
        self._received = b""
        self._session: str | None = None
        self.problems: list[str] = []
        """What the page complained about: errors, and what its policy refused."""
        self.requested: list[str] = []
        """Every address that it asked for."""

    def __enter__(self) -> Browser:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._read)
        os.close(self._write)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one command of the DevTools protocol."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            found = self._message()
            if found.get("id") == number:
                assert "error" not in found, found["error"]
                result: dict[str, Any] = found["result"]
                return result

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(self._read, 1 << 20) if ready else b""
            assert piece, "the browser says nothing more"
            self._received += piece
        line, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        self._noted(found.get("method"), found.get("params", {}))
        return found

    def _noted(self, event: str | None, told: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.problems.append(str(told["exceptionDetails"].get("exception", {}).get("description")))
        elif event == "Log.entryAdded":
            self.problems.append(told["entry"]["text"])
        elif event == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {told['message']}")
        elif event == "Network.requestWillBeSent":
            self.requested.append(told["request"]["url"])

    def open(self, page: Path, *, width: int = 1200, height: int = 900, dark: bool = False, ready: str = READY) -> None:
        """Load a file and wait until the report in it is there."""
        self.problems.clear()
        self.requested.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", media="", features=scheme)
        self.send("Page.navigate", url=page.as_uri())
        self.wait(ready)
        self.settle()

    def settle(self) -> None:
        """Let what was asked for be drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until an expression in the page is true."""
        until = time.monotonic() + _PATIENCE_S
        while not self.evaluate(condition):
            assert time.monotonic() < until, condition
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """Click with the mouse into the middle of an element."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def enter(self, selector: str, value: str) -> None:
        """Give a field or a list of choices a value, as its user would."""
        field = f"document.querySelector({json.dumps(selector)})"
        events = "for (const e of ['input', 'change']) f.dispatchEvent(new Event(e))"
        self.evaluate(f"(() => {{ const f = {field}; f.value = {json.dumps(value)}; {events} }})()")
        self.settle()

    def middle(self, selector: str) -> tuple[float, float]:
        """The middle of an element, scrolled into view."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'});"
            " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return x, y

    def drag(self, start: tuple[float, float], end: tuple[float, float], *, shift: bool = False) -> None:
        """Press, move and release the mouse, with the Shift key if wanted."""
        steps = [("mousePressed", start), ("mouseMoved", ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2))]
        for kind, (x, y) in [*steps, ("mouseMoved", end), ("mouseReleased", end)]:
            held = {"button": "left", "buttons": 1, "clickCount": 1, "modifiers": 8 if shift else 0}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)
        self.settle()

    def key(self, key: str) -> None:
        """Press one key."""
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        code = _KEYS.get(key) or ord(key.upper())
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed)
        self.settle()

    def printed(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=False)["data"])
