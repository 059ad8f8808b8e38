"""Writes the transcript of a game, one JSON object per line, with everything that looks like a secret redacted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

BLOT = "(secret)"
_NAMES_A_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", re.IGNORECASE)
_SHORTEST_SECRET = 8
_LOOKS_SECRET = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}"  # API keys of OpenAI and Anthropic
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}"
)


class Scrubber:
    """Redacts the values of environment variables named like secrets, and text in the form of a key."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        known = {v for name, v in environment.items() if _NAMES_A_SECRET.search(name) and len(v) >= _SHORTEST_SECRET}
        self._known = sorted(known, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Redact secrets in a text."""
        for value in self._known:
            text = text.replace(value, BLOT)
        return _LOOKS_SECRET.sub(BLOT, text)

    def value(self, value: Any) -> Any:
        """Redact secrets in plain data, including the keys of objects."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.value(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(part) for part in value]
        return value


class Transcript:
    """The transcript file of one task, as a context manager. Without a folder, nothing is written."""

    def __init__(self, folder: Path | None, task: str, scrubber: Scrubber) -> None:
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", task).lstrip(".") or "task"
        self._path = folder / f"{safe}.jsonl" if folder else None
        self._scrubber = scrubber
        self._file: TextIO | None = None

    def __enter__(self) -> Transcript:
        if self._path:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def write(self, what: str, **facts: Any) -> None:
        """Write one line and flush it, so that the transcript of an interrupted game is readable."""
        if self._file:
            self._file.write(json.dumps(self._scrubber.value({"what": what, **facts}), default=str) + "\n")
            self._file.flush()
