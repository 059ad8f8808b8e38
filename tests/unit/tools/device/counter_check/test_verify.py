"""The host finds what kernels left wrong: memories written lane by lane as the sources say pass, spoilt ones do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from rooflens.analysis.catalogue import targets
from rooflens.analysis.counter_check import known_kernels
from rooflens.analysis.counter_check.known_kernels import KnownLaunch
from rooflens.tools.device.counter_check.kernel_results import explain_wrong_result

Memory = np.ndarray


@cache
def _launches() -> list[KnownLaunch]:
    facts = {fact: value.value for fact, value in targets.gpu("gfx90a").facts.items()}
    return known_kernels.launches("gfx90a", {**facts, "cu_per_gpu": 2}, functional=True)


def _launch(name: str, **small: int) -> KnownLaunch:
    return next(launch for launch in _launches() if launch.name == name).model_copy(update=small)


def _read_8(launch: KnownLaunch) -> Memory:
    out = np.zeros(launch.groups * launch.threads, np.uint32)
    lanes = out.size
    for lane in range(lanes):
        for time in range(4 * launch.rounds):
            first = 2 * (lane + time * lanes)
            out[lane] += np.uint32(first + first + 1)
    return out


def _write_16(launch: KnownLaunch) -> Memory:
    lanes = launch.groups * launch.threads
    out = np.zeros((4 * launch.rounds * lanes, 4), np.uint32)
    for time in range(4 * launch.rounds):
        for lane in range(lanes):
            out[time * lanes + lane] = lane + time
    return out


def _lds_read_4(launch: KnownLaunch) -> Memory:
    out = np.zeros(launch.groups * launch.threads, np.uint32)
    tile = np.arange(8192, dtype=np.uint32)
    for lane in range(launch.threads):
        one = sum(int(tile[lane % 64 * 4 + 1024 * i]) for i in range(8)) * launch.rounds + int(tile[lane])
        out[lane :: launch.threads] = one
    return out


def _scratch(launch: KnownLaunch) -> Memory:
    return np.full(
        launch.groups * launch.threads, sum(r + i for r in range(launch.rounds) for i in range(8)), np.uint32
    )


def _copy_16(launch: KnownLaunch) -> Memory:
    return np.arange(1 << 14, dtype=np.uint32)


def _fma_f32(launch: KnownLaunch) -> Memory:
    return np.full(launch.groups * launch.threads * 16, 1 + 8 * launch.rounds, np.float32)


MADE: dict[str, Callable[[KnownLaunch], Memory]] = {
    "known_read_8": _read_8, "known_write_16": _write_16, "known_lds_read_4": _lds_read_4, "known_scratch": _scratch,
    "known_copy_16": _copy_16, "known_fma_f32": _fma_f32,
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_what_a_kernel_must_leave_passes_and_one_wrong_word_is_told(name: str) -> None:
    launch = _launch(name, groups=2, rounds=2)
    if name == "known_fma_f32":
        launch = launch.model_copy(update={"result": 17.0})
    memory = MADE[name](launch)
    assert explain_wrong_result(launch, lambda offset, size: memory.tobytes()[offset : offset + size]) == ""
    memory.reshape(-1)[8] += 1
    assert explain_wrong_result(launch, lambda offset, size: memory.tobytes()[offset : offset + size]).startswith(
        "1 of "
    )  # type: ignore[union-attr]


def test_what_nobody_can_tell_is_neither_right_nor_wrong() -> None:
    assert explain_wrong_result(_launch("known_lds_add"), lambda offset, size: bytes(size)) is None
