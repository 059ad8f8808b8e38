"""`rooflens serve`: the MCP server, on stdio or HTTP."""

from __future__ import annotations

import gc
import os
import sys
from argparse import ArgumentParser, Namespace

from ...analysis.store.store import Store
from .call import source_roots

HELP = "run the MCP server (stdio by default)"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="use streamable HTTP, at /mcp, instead of stdio, or unix:PATH for a socket of your own;"
        " clients must send the printed token, or $ROOFLENS_TOKEN",
    )
    parser.add_argument(
        "--allowed-host",
        metavar="NAME[:PORT]",
        action="append",
        default=[],
        help="another host name with which clients reach --http, for example that of a proxy (repeatable)",
    )
    parser.add_argument(
        "--insecure-local",
        action="store_true",
        help="allow --http on a loopback address without a token: every user of this machine can then connect",
    )
    parser.add_argument(
        "--allow-exec",
        action="store_true",
        help="enable profile_command and other tools that run programs on this machine, as you",
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="disable everything that writes or runs programs; overrides --allow-exec",
    )
    source_roots(parser)


def execute(options: Namespace, store: Store) -> int:
    # Everything imported here lives as long as the server, so collecting garbage would only delay the start.
    gc.disable()
    from ..mcp.http import serve

    status = serve(
        store,
        http=options.http,
        read_only=options.read_only,
        allow_exec=options.allow_exec,
        insecure_local=options.insecure_local,
        allowed_hosts=options.allowed_host,
        source_roots=options.source_root,
    )
    # The server has ended: a thread that is still in a call or waits for input must not keep the process alive.
    sys.stderr.flush()
    os._exit(status)
