"""The start script of a fresh interpreter for child.py: finds the package and carries out its order.

Arguments: the file descriptor of the socket to the parent, and that of a pipe with the order as JSON.
"""

import importlib
import importlib.util
import json
import os
import socket
import sys
from pathlib import Path


def main() -> None:
    """Import the package from where the parent found it, and hand over."""
    end, pipe = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(pipe, "rb") as source:
        order = json.loads(source.read())
    sys.path[:] = order["path"]
    spec = importlib.util.spec_from_file_location(
        order["package"], Path(order["root"]) / "__init__.py", submodule_search_locations=[order["root"]]
    )
    assert spec and spec.loader
    package = importlib.util.module_from_spec(spec)
    sys.modules[order["package"]] = package
    spec.loader.exec_module(package)
    child = importlib.import_module(order["package"] + ".tools.isolation.child")
    child.run_fresh(socket.socket(fileno=end), order)
    os._exit(0)


if __name__ == "__main__":
    main()
