"""Compiles one kernel with hiprtc in a separate process, because hiprtc may abort the process.

Reads {"source", "options"} as JSON from standard input and writes {"code" (base64), "version"} or {"failure"}.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
from typing import Any


def main() -> None:
    """Compile the source on standard input."""
    task = json.load(sys.stdin)
    try:
        print(json.dumps(answer(task["source"], task["options"])))
    except ImportError as error:
        print(json.dumps({"failure": f"hip-python is missing ({error})"}))
    except RuntimeError as error:
        # The bindings load the library at the first call, so a missing library or symbol shows up here.
        print(json.dumps({"failure": str(error)}))


def answer(source: str, options: list[str]) -> dict[str, str]:
    """Return the code object, or the compiler's log."""
    hiprtc: Any = importlib.import_module("hip").hiprtc
    status, major, minor = hiprtc.hiprtcVersion()
    version = f"hiprtc {major}.{minor}" if not int(status) else "hiprtc"
    program = _check(hiprtc.hiprtcCreateProgram(source.encode(), b"kernel.hip", 0, None, None))
    words = [option.encode() for option in options]
    (status,) = hiprtc.hiprtcCompileProgram(program, len(words), words)
    if int(status):
        log = bytearray(_check(hiprtc.hiprtcGetProgramLogSize(program)))
        hiprtc.hiprtcGetProgramLog(program, log)
        return {"failure": f"status {int(status)}: {log.decode(errors='replace').strip(chr(0))[:600]}"}
    code = bytearray(_check(hiprtc.hiprtcGetCodeSize(program)))
    _check(hiprtc.hiprtcGetCode(program, code))
    return {"code": base64.b64encode(bytes(code)).decode(), "version": version}


def _check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if int(status):
        raise RuntimeError(f"hiprtc returned {getattr(status, 'name', status)}")
    return values[0] if values else None


if __name__ == "__main__":
    main()
