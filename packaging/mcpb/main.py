"""Starts the server of an MCP bundle, with the user's settings as options of `rooflens serve`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def options(environment: Mapping[str, str]) -> list[str]:
    """Build the options. A setting that the user left empty is empty or, with some hosts, still its placeholder."""
    given = {
        name: value
        for name in ("STORE", "ALLOW_EXEC", "READ_ONLY")
        if (value := environment.get(f"ROOFLENS_BUNDLE_{name}", "").strip()) and not value.startswith("${")
    }
    chosen = ["--store", given["STORE"]] if "STORE" in given else []
    chosen += ["--allow-exec"] if given.get("ALLOW_EXEC", "").lower() == "true" else []
    return chosen + (["--read-only"] if given.get("READ_ONLY", "").lower() == "true" else [])


if __name__ == "__main__":
    from rooflens.server.cli import main

    sys.exit(main(["serve", *options(os.environ)]))
