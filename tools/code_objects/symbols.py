"""The functions of an AMD code object by its symbol table."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from elftools.common.exceptions import ELFError

from ...analysis.base.problems import BadInput, LimitExceeded
from ...analysis.base.text import count_text
from ..base.untrusted_text import KERNEL_LIMIT, plain_text

_TABLES = (".symtab", ".dynsym")
_MOST = 300_000


@dataclass(frozen=True)
class Function:
    """A function: its name as the linker has it, its first address and the one after its last."""

    name: str
    span: tuple[int, int]


def functions(file: Any) -> list[Function]:
    """The functions of an ELF file by address; BadInput where its symbols are damaged."""
    names_by_span: dict[tuple[int, int], str] = {}
    try:
        for table in (file.get_section_by_name(name) for name in _TABLES):
            if table is None:
                continue
            if (count := table.num_symbols()) > _MOST:
                raise LimitExceeded(f"The code object has {count_text(count, 'symbol')}", f"{_MOST:,} are read")
            for symbol in table.iter_symbols():
                start, size = symbol["st_value"], symbol["st_size"]
                if symbol["st_info"]["type"] == "STT_FUNC" and size:
                    names_by_span.setdefault((start, start + size), plain_text(symbol.name, KERNEL_LIMIT))
    except (ELFError, KeyError, ValueError, AttributeError, TypeError, ZeroDivisionError) as error:
        raise BadInput("The symbols of the code object are damaged", plain_text(str(error), 160)) from error
    return [Function(name, span) for span, name in sorted(names_by_span.items())]


class FunctionLookup:
    """Functions by address."""

    def __init__(self, parts: list[Function]) -> None:
        self._parts = sorted(parts, key=lambda p: p.span)
        self._starts = [p.span[0] for p in self._parts]

    def __call__(self, address: int) -> Function | None:
        """The function around an address."""
        place = bisect_right(self._starts, address) - 1
        function = self._parts[place] if place >= 0 else None
        return function if function and address < function.span[1] else None
