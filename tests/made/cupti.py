"""Recordings made by the tests, chunk by chunk, in the format that recorder.c describes."""

from __future__ import annotations

import struct
from pathlib import Path

MAGIC = b"RFLREC1\n"
START, END = 2, 4


def chunk(kind: str, payload: bytes = b"", record: int = 0) -> bytes:
    return struct.pack("<4sIQ", kind.encode(), record, len(payload)) + payload


class Recording:
    """One file of the recorder in the making."""

    def __init__(self, **info: object) -> None:
        text = "".join(f"{k}={v}\n" for k, v in {"process": 100, "library": 130000, "host": "node", **info}.items())
        self.content = MAGIC + chunk("INFO", text.encode())
        self.names: dict[str, int] = {}

    def name(self, text: str) -> int:
        if text not in self.names:
            self.names[text] = len(self.names) + 1
            data = text.encode()
            self.content += chunk("NAME", struct.pack("<II", self.names[text], len(data)) + data)
        return self.names[text]

    def device(self, number: int = 0, uuid: bytes = b"u" * 16) -> Recording:
        fields = struct.pack("<6IQ", number, self.name("NVIDIA H200"), 9, 0, 132, 1980000, 150_109_880_320)
        self.content += chunk("DEVC", fields + uuid, 48)
        return self

    def kernel(
        self, name: str = "k", start: int = 1000, *, at: int = 1, device: int = 0, more: bytes = b""
    ) -> Recording:
        """A launch with correlation ``at``, of 100 ns."""
        times = struct.pack("<3Q", start, start + 100 if start else 0, 0)
        ids = struct.pack("<6I", self.name(name), device, 1, 7, at, 0)
        sizes = struct.pack("<14I", 4, 2, 1, 32, 2, 1, 0, 0, 0, 40, 1024, 16, 8, 0)
        self.content += chunk("KERN", times + ids + sizes + more, 104 + len(more))
        return self

    def call(self, at: int, host: int, thread: int = 1) -> Recording:
        self.content += chunk("LNCH", struct.pack("<2Q4I", host, host + 5, at, thread, 211, 0), 32)
        return self

    def work(self, kind: str, fields: str, *values: int) -> Recording:
        """A record of a timeline."""
        payload = struct.pack(fields, *values)
        self.content += chunk(kind, payload, len(payload))
        return self

    def mark(self, time: int, mark: int, flags: int, name: str = "", thread: int = 1, domain: str = "") -> Recording:
        number, of = (self.name(text) if text else 0 for text in (name, domain))
        self.content += chunk("MARK", struct.pack("<Q8I", time, mark, flags, number, of, 2, 100, thread, 0), 40)
        return self

    def launch(self, host: int, thread: int = 1, name: str = "k") -> Recording:
        """A kernel called at ``host``, which is also its correlation."""
        return self.call(host, host, thread).kernel(name, host + 1000, at=host)

    def put(self, path: Path, *, ended: bool = True) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content + (chunk("DONE") if ended else b""))
        return path
