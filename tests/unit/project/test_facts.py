"""Facts of GPUs stand in the catalogue's data files: code names no target and no product to decide by."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

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


def test_no_code_decides_by_the_name_of_a_target_or_product() -> None:
    pattern = re.compile(rf"{PREFIXES}|\b({'|'.join(map(re.escape, sorted(names())))})\b", re.IGNORECASE)
    found = {
        (str(path.relative_to(ROOT)), node.value)
        for path in SOURCES
        for node in identifiers(path.read_text(encoding="utf-8"))
        if pattern.search(node.value)
    }
    assert {value for _, value in found} <= ALLOWED, found
