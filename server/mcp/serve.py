"""Runs the MCP server on stdio or on streamable HTTP."""

from __future__ import annotations

import gc
import signal
from collections.abc import Sequence

import anyio

from ...analysis.base.problems import BadArgument
from ...analysis.store.store import Store
from ...tools.answers.source_text import roots_of
from ...tools.isolation.fork_server import ForkServer
from ...tools.running.start import stop_all
from . import access, warm_up
from .app import build
from .stdio import serve_stdio


def serve(
    store: Store,
    *,
    http: str | None = None,
    read_only: bool = False,
    allow_exec: bool = False,
    insecure_local: bool = False,
    allowed_hosts: Sequence[str] = (),
    source_roots: Sequence[str] = (),
) -> int:
    """Serve until the client goes away (stdio) or the process is told to end (HTTP).

    On HTTP clients need a token, from ROOFLENS_TOKEN or made and printed here, unless ``insecure_local`` waives it.
    ``source_roots`` are folders whose source files may be shown.
    """
    if http is None and (insecure_local or allowed_hosts):
        raise BadArgument("--insecure-local and --allowed-host belong to --http", fix="Name an address with --http")
    if http is not None:
        address = access.parse(http)
        token = access.token(address, insecure_local=insecure_local, executes=allow_exec and not read_only)
        hosts = access.hosts(address, allowed_hosts)
    roots = roots_of(source_roots)
    gc.freeze()
    gc.enable()
    forks = ForkServer(warm_up.STEPS)
    mcp = build(store, read_only=read_only, allow_exec=allow_exec, source_roots=roots, forks=forks)
    # With the tools' schemas made, and before the first thread: a process with one can be copied.
    forks.start()
    try:
        if http is not None:
            from .http import serve_http

            serve_http(mcp, address, hosts, token)
        else:
            # An interrupt would only be noticed with the next line of input. Runs end with this process in any case.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            anyio.run(serve_stdio, mcp)
    finally:
        forks.close()
        stop_all()
    return 0
