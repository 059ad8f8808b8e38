"""Walks a kernel from its naive version to the fast one through rooflens over MCP, with no model in it.

python examples/loop/optimize.py transpose                               from the shipped recording, without a GPU
python examples/loop/optimize.py yax --live examples/kernels/kernels     on this machine's GPU, under its profiler
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import anyio
import loop
from mcp import StdioServerParameters
from mcp.client import Client


async def walk(options: argparse.Namespace, folder: Path) -> int:
    """Start a server as any client does, run the loop, and tell what happened; the exit status."""
    arguments = ["-m", "rooflens", "serve", "--store", str(options.store or folder / "store")]
    if options.live:
        measure = loop.live(str(Path(options.live).resolve()), repeat=options.repeat)
        arguments.append("--allow-exec")
    else:
        measure = loop.replay_recording(folder)
    ladder = loop.ladders()[options.ladder]
    async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))) as client:
        try:
            print(loop.rounds_text(ladder, await loop.optimise(client, ladder, measure, rounds=options.rounds)))
        except loop.CallRefused as refused:
            print(refused, file=sys.stderr)
            return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("ladder", choices=sorted(loop.ladders()), help="what to optimise")
    parser.add_argument("--live", metavar="PROGRAM", help="the built example program of examples/kernels")
    parser.add_argument("--repeat", type=int, default=9, help="launches after the first, as samples (default 9)")
    parser.add_argument("--rounds", type=int, default=loop.ROUNDS, help="most rounds (default %(default)s)")
    parser.add_argument("--store", metavar="DIR", help="keep the workloads and the experiment log here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rooflens-loop-") as folder:
        return anyio.run(walk, options, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
