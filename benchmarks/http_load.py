"""How a server on HTTP bears many clients: `python benchmarks/http_load.py [--clients 16] [--seconds 60]`.

Half of the clients keep a session, half send stateless requests. One more client asks only for slow SQL (10 s each),
and one imports profiles one after the other. With `--sessions 2000` sessions are opened and ended instead, and the
server's memory is printed after every 200; `--abandon` leaves them open, as a careless client does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx2

from rooflens.analysis.store.store import Store
from rooflens.tools.import_profile import import_profile

SAMPLES = Path(__file__).resolve().parents[1] / "server" / "samples"
TOKEN = "the-token-of-this-benchmark"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "http_load", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MIXED: list[tuple[str, dict[str, Any]]] = [
    ("list_workloads", {}),
    ("list_workloads", {"workload": "yax_before"}),
    ("search_metrics", {"query": "hit rate"}),
    ("compute_metrics", {"workload": "yax_after"}),
    ("compute_metrics", {"workload": "clover", "metrics": ["17"], "by_kernel": True}),
    ("query_counters", {"sql": "SELECT kernel, count(*) FROM dispatches GROUP BY kernel LIMIT 5"}),
    ("compute_roofline", {"workload": "yax_before"}),
    ("compute_occupancy", {"gpu": "gfx90a", "vgprs": 96, "workgroup_size": 256}),
    ("diagnose_bottleneck", {"workload": "matmul_fp64"}),
    ("plan_profile", {"gpu": "gfx942", "metrics": ["overview"]}),
]
SLOW = {"sql": "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b", "timeout_s": 10}


class Caller:
    """One client: with a session of its own, or stateless."""

    def __init__(self, url: str, session: bool) -> None:
        limits = httpx2.Limits(max_connections=4)
        self._http = httpx2.AsyncClient(verify=False, timeout=120, limits=limits, headers={
            "Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"})  # fmt: skip
        self._url, self._keeps, self._session, self._next = url, session, "", 0

    async def open(self) -> None:
        """The handshake, where there is one."""
        if self._keeps:
            await self._send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                            "clientInfo": {"name": "http_load", "version": "0"}})  # fmt: skip
            done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self._http.post(self._url, json=done, headers={"Mcp-Session-Id": self._session})

    async def close(self, *, end: bool = True) -> None:
        """Go away, with or without a word."""
        if self._session and end:
            await self._http.delete(self._url, headers={"Mcp-Session-Id": self._session})
        await self._http.aclose()

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """How a call ended: ok, refused (the tool says why), or the error of HTTP or of the protocol."""
        status, answer = await self._send("tools/call", {"name": tool, "arguments": arguments})
        if status != 200 or "error" in answer:
            return f"{status} {answer.get('error', {}).get('code')}"
        return "refused" if answer["result"].get("isError") else "ok"

    async def _send(self, method: str, params: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self._next += 1
        headers = {"Mcp-Session-Id": self._session} if self._session else {}
        if not self._keeps:
            headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": params.get("name", "")}
            params = {**params, "_meta": META}
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        reply = await self._http.post(self._url, json=message, headers=headers)
        self._session = self._session or (reply.headers.get("mcp-session-id", "") if self._keeps else "")
        lines = [line[5:] for line in reply.text.splitlines() if line.startswith("data:")]
        return reply.status_code, json.loads(lines[-1] if lines else reply.text)


def memory_mib(pid: int) -> tuple[float, float]:
    """Resident memory of a process, and of it with all its descendants."""
    own = _resident(pid)
    return own, own + sum(memory_mib(child)[1] for child in _children(pid))


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        return 0.0


def _children(pid: int) -> list[int]:
    try:
        return [int(c) for task in Path(f"/proc/{pid}/task").iterdir() for c in (task / "children").read_text().split()]
    except OSError:
        return []


async def load(url: str, pid: int, clients: int, seconds: float, pause: float) -> None:
    """Many clients for some seconds; prints calls per second, errors and times by tool."""
    times: dict[str, list[float]] = defaultdict(list)
    errors: dict[str, int] = defaultdict(int)
    end = time.monotonic() + seconds

    async def repeat(name: str, session: bool, pick: Callable[[int], tuple[str, dict[str, Any]]]) -> None:
        caller = Caller(url, session)
        await caller.open()
        number = 0
        while time.monotonic() < end:
            tool, arguments = pick(number)
            number += 1
            began = time.monotonic()
            outcome = await caller.call(tool, arguments)
            times[name or tool].append(time.monotonic() - began)
            # Slow SQL is meant to meet its limit.
            if outcome != "ok" and not (name and outcome == "refused"):
                errors[f"{name or tool}: {outcome}"] += 1
            await asyncio.sleep(0 if name else pause)
        await caller.close()

    def mixed(offset: int) -> Callable[[int], tuple[str, dict[str, Any]]]:
        return lambda number: MIXED[(number + offset) % len(MIXED)]

    def importing(number: int) -> tuple[str, dict[str, Any]]:
        return "import_profile", {"path": str(SAMPLES / "clover"), "name": f"imported_{number}"}

    before = memory_mib(pid)
    jobs = [repeat("", bool(i % 2), mixed(i)) for i in range(clients)]
    jobs += [repeat("slow SQL", True, lambda _: ("query_counters", SLOW)), repeat("import", True, importing)]
    tasks = [asyncio.create_task(job) for job in jobs]
    await asyncio.sleep(seconds / 2)
    middle = memory_mib(pid)
    await asyncio.gather(*tasks)
    ordinary = [t for name, found in times.items() if name not in ("slow SQL", "import") for t in found]
    print(
        f"{clients} clients, {seconds:.0f} s: {len(ordinary) / seconds:.1f} calls/s; errors: {dict(errors) or 'none'}"
    )
    rows = {"all but slow SQL and import": ordinary, **times}
    for name, found in rows.items():
        p95 = statistics.quantiles(found, n=20, method="inclusive")[-1] if len(found) > 1 else found[0]
        print(f"{name:28} {len(found):5}  p50 {statistics.median(found):6.3f}  p95 {p95:6.3f}  max {max(found):6.3f} s")
    for label, (own, tree) in (("start", before), ("middle", middle), ("end", memory_mib(pid))):
        print(f"memory at the {label:6} {own:6.0f} MiB, with children {tree:6.0f} MiB")


async def sessions(url: str, pid: int, count: int, end: bool) -> None:
    """Open and end sessions, each with one call; prints the memory after every 200."""
    for done in range(count):
        if done % 200 == 0:
            print(f"{done:5} sessions  {memory_mib(pid)[0]:6.1f} MiB", flush=True)
        caller = Caller(url, session=True)
        await caller.open()
        outcome = await caller.call("compute_occupancy", {"gpu": "gfx90a", "vgprs": 96, "workgroup_size": 256})
        if outcome != "ok":
            print(f"session {done}: {outcome}")
        await caller.close(end=end)
    print(f"{count:5} sessions  {memory_mib(pid)[0]:6.1f} MiB")


def _run(what: Callable[[str, int], Coroutine[Any, Any, None]]) -> None:
    """Do something with a server over the shipped samples."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store")
        for sample in sorted(path for path in SAMPLES.iterdir() if (path / "pmc_perf.csv").exists()):
            import_profile(store, str(sample), name=sample.name)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with (Path(folder) / "log").open("wb") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "rooflens", "serve", "--http", f"127.0.0.1:{port}", "--store", str(store.root)],
                env={**os.environ, "ROOFLENS_TOKEN": TOKEN}, stderr=log,
            )  # fmt: skip
        try:
            while not (Path(folder) / "log").read_bytes():
                time.sleep(0.1)
            asyncio.run(what(f"http://127.0.0.1:{port}/mcp", server.pid))
        finally:
            began = time.monotonic()
            server.terminate()
            print(f"the server ended with status {server.wait(30)} after {time.monotonic() - began:.1f} s")
            if b"Traceback" in (text := (Path(folder) / "log").read_bytes()):
                print(text[text.index(b"Traceback") :][:3000].decode())


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0, help="seconds that a client thinks between two calls")
    parser.add_argument("--sessions", type=int, help="open and end so many sessions instead")
    parser.add_argument("--abandon", action="store_true", help="with --sessions: do not end them")
    options = parser.parse_args()
    if options.sessions:
        _run(lambda url, pid: sessions(url, pid, options.sessions, not options.abandon))
    else:
        _run(lambda url, pid: load(url, pid, options.clients, options.seconds, options.pause))


if __name__ == "__main__":
    main()
