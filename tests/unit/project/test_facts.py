"""Facts of GPUs stand in the catalogue's data files: code names no target and no product to decide by."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rooflens.analysis.catalogue.targets import gpu, products, targets
from rooflens.tests import ROOT

SOURCES = sorted(path for layer in ("server", "tools", "analysis") for path in (ROOT / layer).rglob("*.py"))
ALLOWED = {"h200_kernels"}
"""The name of a sample workload."""
PREFIXES = r"gfx\d|sm_\d|MI\d"
"""Parts of names that stand for several targets or products."""


def names() -> set[str]:
    """Every name of a target or product but ``cpu``, which is the name of a vendor too.

    A word without a digit (PCIE, SUPER) names no product.
    """
    listed = {name for target in targets() for name in (target, *gpu(target).also, *gpu(target).products)}
    words = {word for p in products().values() for words in p.names for word in words if re.search(r"\d", word)}
    return (listed | words) - {"cpu"}


def identifiers(source: str) -> Iterator[ast.Constant]:
    """Texts without a space: what code compares and looks up. Sentences may name a target as an example."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value.strip():
            yield node


def offences(source: str) -> list[str]:
    pattern = re.compile(rf"{PREFIXES}|\b({'|'.join(map(re.escape, sorted(names())))})\b", re.IGNORECASE)
    return [n.value for n in identifiers(source) if n.value not in ALLOWED and pattern.search(n.value)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_decides_by_the_name_of_a_target_or_product(path: Path) -> None:
    assert offences(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    ['_UNIFIED = ("gfx90a", "gfx942")', 'if arch == "gfx908": pass', 'arch.startswith(("gfx94", "gfx95"))',
     '{0x2F: "gfx906"}', '{"sm_90": "sm_90a"}', '{0x740C: "MI250X/MI250"}', 'f"{x}-generic" == "gfx9-4-generic"'],
)  # fmt: skip
def test_lists_of_names_are_noticed(source: str) -> None:
    assert offences(source)


@pytest.mark.parametrize("source", ['"""An example: gfx90a."""', 'd("target such as gfx942")', 'f"sm_{major}{minor}"'])
def test_examples_in_sentences_and_the_schemes_of_names_are_none(source: str) -> None:
    assert not offences(source)
