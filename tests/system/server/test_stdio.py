"""The server as a process on stdio: clean stdout, light start, both eras, end at end of input."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.mcp import stdio
from rooflens.tests.support.malformed import HOSTILE, MALFORMED, NOT_FOR_US, OF_EACH_KIND
from rooflens.tests.support.waiting import END_S
from rooflens.tests.system.server.test_calls import COLD

HEAVY = ("duckdb", "pandas", "matplotlib", "hip", "argcomplete", "tqdm")


def test_nothing_heavy_is_imported_before_a_tool_a_shell_or_a_terminal_needs_it() -> None:
    code = (
        "import sys\nfrom rooflens.analysis.store.store import Store\nfrom rooflens.server.cli import main\n"
        "from rooflens.server.mcp.app import build\nbuild(Store('x'))\n"
        "try: main(['--version'])\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


class _Raw:
    """A server on stdio, spoken to in bytes."""

    def __init__(self, store: Store, era: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", COLD, "--store", str(store.root), "serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.era = era
        if era == "2025-11-25":
            early = self.ask({"id": 3, "method": "tools/list"})
            assert early["id"] == 3 and early["error"]["code"], "nothing is told before initialize"
            self.ask({"id": "first", "method": "initialize", "params": {
                "protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}})  # fmt: skip
            self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        else:
            self.ask({"id": "first", "method": "server/discover", "params": {}})

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        patience = threading.Timer(END_S, self.process.kill)
        patience.start()
        try:
            return dict(json.loads(self.process.stdout.readline().decode("utf-8")))
        finally:
            patience.cancel()

    def line(self, message: dict[str, Any]) -> bytes:
        if self.era != "2025-11-25" and "params" in message:
            envelope = {
                "io.modelcontextprotocol/protocolVersion": self.era, "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
            }  # fmt: skip
            message = {**message, "params": {**message["params"], "_meta": envelope}}
        return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.send(self.line(message))
        return self.answer()


@pytest.fixture(scope="module", params=["2025-11-25", "2026-07-28"])
def raw(request: pytest.FixtureRequest, samples: Store) -> Iterator[_Raw]:
    found = _Raw(samples, request.param)
    yield found
    found.process.kill()
    found.process.wait()


def test_a_malformed_message_is_answered_and_the_next_one_served(raw: _Raw) -> None:
    for name in OF_EACH_KIND:
        message, expected = MALFORMED[name]
        raw.send(message + b"\n")
        if expected is not None:
            answer = raw.answer()
            assert (answer["error"]["code"], answer["id"]) == expected, name
        assert raw.ask({"id": "next", "method": "tools/list", "params": {}})["id"] == "next"


def test_what_is_no_question_gets_no_answer(raw: _Raw) -> None:
    for message in (*NOT_FOR_US, b"", b"\r", b'{"jsonrpc":"2.0","id":99,"result":{}}'):
        raw.send(message + b"\n")
    assert raw.ask({"id": "next", "method": "tools/list", "params": {}})["id"] == "next"


def test_a_request_that_cannot_be_served_gets_its_code_and_known_names(raw: _Raw) -> None:
    for method, params, code, told in (
        ("nobody/knows", {}, -32601, ""),
        ("tools/call", {"name": "compute_metric", "arguments": {}}, -32602, "compute_metrics"),
        ("tools/call", {"name": "list_workloads", "arguments": [1]}, -32602, ""),
        ("tools/call", {"arguments": {}}, -32602, ""),
        ("prompts/get", {"name": "nobody_knows"}, -32602, "optimize_program"),
        ("prompts/get", {"name": 5}, -32602, ""),
        ("resources/read", {"uri": "rooflens://gpus/nobody_knows"}, -32602, ""),
        ("resources/read", {"uri": "rooflens://workload/nobody_knows/summary"}, -32602, ""),
    ):
        answer = raw.ask({"id": 7, "method": method, "params": params})
        assert (answer["error"]["code"], answer["id"]) == (code, 7) and told in answer["error"]["message"]


@pytest.mark.parametrize("odd", ["m" * 3_000_000, HOSTILE], ids=["long", "hostile"])
def test_errors_repeat_little_of_a_request_and_nothing_hidden(raw: _Raw, odd: str) -> None:
    uris = [f"rooflens://{odd}", f"rooflens://workload/{odd}", f"rooflens://workload/{odd}/summary", odd]
    requests = [(odd, {}), (f"tools/{odd}", {}), *(("resources/read", {"uri": uri}) for uri in uris)]
    for number, (method, params) in enumerate(requests):
        answer = raw.ask({"id": 900 + number, "method": method, "params": params})
        told = json.dumps(answer["error"], ensure_ascii=False)
        assert len(told) < 1000, told[:300]
        assert not any(part in told for part in ("\u202e", "\u200b", "u001b", "<img", "![a]")), told
    fine = raw.ask({"id": 999, "method": "resources/read", "params": {"uri": "rooflens://nothing"}})
    assert "rooflens://nothing" in json.dumps(fine["error"]), "a plain address is repeated"


def test_a_line_of_64_megabytes_is_answered_without_being_held(raw: _Raw) -> None:
    raw.ask({"id": 0, "method": "tools/list", "params": {}})
    before = _peak_mib(raw.process.pid)
    for _ in range(64):
        raw.send(b"x" * (1 << 20))
    raw.send(b"\n")
    answer = raw.answer()
    assert (answer["error"]["code"], answer["id"]) == (-32600, None)
    assert _peak_mib(raw.process.pid) - before < 40
    assert raw.ask({"id": "next", "method": "tools/list", "params": {}})["id"] == "next"


def test_an_id_that_is_in_use_is_refused_and_both_are_answered(raw: _Raw) -> None:
    slow = {"name": "query_counters", "arguments": {
        "sql": "SELECT count(*) FROM range(1000000000) a, range(1000000000) b", "timeout_s": 0.3}}  # fmt: skip
    for _ in range(2):
        assert "result" in raw.ask({"id": 7, "method": "tools/list", "params": {}}), "free again after its answer"
    # In one piece: the first must not have ended before the second is read.
    raw.send(raw.line({"id": 7, "method": "tools/call", "params": slow}) + raw.line({"id": 7, "method": "tools/list"}))
    answers = [raw.answer(), raw.answer()]
    assert [a["id"] for a in answers] == [7, 7]
    assert answers[0]["error"]["code"] == -32600 and "result" in answers[1]


def test_a_client_that_goes_away_ends_the_server(raw: _Raw) -> None:
    """The last that is asked of it, by one with half a message that is answered."""
    assert raw.process.stdin and raw.process.stdout
    if raw.era == "2025-11-25":
        raw.send(b'{"jsonrpc":"2.0","id":4,"meth')
        raw.process.stdin.close()
        assert (answer := raw.answer())["error"]["code"] == -32700 and answer["id"] is None
        assert raw.process.wait(END_S) == 0
        return
    raw.process.stdout.close()
    raw.send(raw.line({"id": 3, "method": "tools/list", "params": {}}))
    assert raw.process.wait(END_S) == 0
    raw.process.stdin.close()


def _peak_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_lines_are_the_same_however_the_bytes_come(size: int) -> None:
    data = b"one\n\ntwelve bytes\nten bytes!\nrest"
    lines, found = stdio.Lines(10), []
    for start in range(0, len(data), size):
        found += lines.feed(data[start : start + size])
    assert [*found, lines.rest()] == [b"one", b"", None, b"ten bytes!", b"rest"]
