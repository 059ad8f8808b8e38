"""Whether this machine has an llvm-objdump that knows the GPU of the code objects that tests disassemble."""

from __future__ import annotations

from functools import cache

import pytest

from rooflens.tests import DATA
from rooflens.tools.code_objects.disassembly import disassemblers, instructions

_CODE, _SPAN = DATA / "code_objects" / "lines_gfx942.hsaco", (0x1C00, 0x1C10)


@cache
def known() -> bool:
    """Whether an installed one disassembles gfx942, which that of LLVM 14 does not."""
    return any(list(instructions(program, _CODE, _SPAN, 20)) for program in disassemblers())


needed = pytest.mark.skipif(not known(), reason="needs apt-get install llvm-22 (an llvm-objdump that knows gfx942)")
