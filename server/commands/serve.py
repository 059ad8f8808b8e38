"""`rooflens serve`: the MCP server, on stdio or HTTP."""

from __future__ import annotations

import gc
import os
import sys
from argparse import Namespace

from ...analysis.store.store import Store


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
