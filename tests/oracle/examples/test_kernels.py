"""The example program computes what it says it computes, on an emulated device, and says so when it does not."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest

from rooflens.tests.oracle.examples.conftest import SOURCES, Build, Line, lines

NEEDS_A_MATRIX_UNIT = {"tensor_f16"}
NEEDS_WAYS_OF_COPYING = {
    "async_copy_4", "async_copy_8", "async_copy_16", "async_copy_bypass", "async_copy_scattered", "copy_two_ways",
    "bulk_copy", "bulk_read", "bulk_write", "bulk_multicast", "bulk_reduce", "tensor_map_copy",
    "cluster_read", "cluster_write", "cluster_atomic", "cluster_bulk", "matrix_loads", "matrix_groups",
}  # fmt: skip
NOT_EMULATED = NEEDS_A_MATRIX_UNIT | NEEDS_WAYS_OF_COPYING


def test_every_kernel_gives_what_the_cpu_gives(table: dict[str, Line], listed: dict[str, dict[str, str]]) -> None:
    assert set(table) == set(listed) - NOT_EMULATED
    wrong = {name for name, line in table.items() if line.check != "ok"}
    assert wrong == {"yax_faulty"}


def test_ways_of_copying_that_a_device_lacks_are_skipped_with_what_they_need(emulated: Build) -> None:
    done = emulated.run(",".join(sorted(NEEDS_WAYS_OF_COPYING)), "--small", "--check")
    assert done.returncode == 0, done.stderr
    reasons = dict(re.findall(r"^(\w+) +skipped: (.+)$", done.stdout, re.MULTILINE))
    assert set(reasons) == NEEDS_WAYS_OF_COPYING
    assert all(reason.startswith("needs ") and "CUDA" in reason for reason in reasons.values())


def test_the_faulty_kernel_is_wrong_by_the_rows_that_it_leaves_out(emulated: Build) -> None:
    done = emulated.run("yax_faulty,yax_solution", "--n", "256", "--check", "--repeat", "0")
    found = lines(done.stdout)
    assert done.returncode == 0
    assert found["yax_faulty"].check == "wrong as intended"
    assert found["yax_faulty"].error == pytest.approx(1 - 1 / 64, rel=0.02)  # the inputs of the rows differ a little
    assert found["yax_solution"].flop / found["yax_faulty"].flop == 64


def test_sizes_that_fit_no_block_are_right_too(emulated: Build, listed: dict[str, dict[str, str]]) -> None:
    counted_in_blocks = {"shared_conflict", "barrier_heavy", "skewed_barrier"}
    names = ",".join(sorted(set(listed) - counted_in_blocks - NOT_EMULATED))
    done = emulated.run(names, "--n", "75", "--check", "--repeat", "0")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "right", "wrong", "kernel"),
    [
        ("matrix_add", "a[row * n + column] + b", "a[row * n + column] - b", "matrix_add_row"),
        ("transpose", "row < n && column < n) out[column", "row + 1 < n && column < n) out[column", "transpose_naive"),
        ("control", "k < ADDS; ++k) atomicAdd", "k + 1 < ADDS; ++k) atomicAdd", "atomic_contention"),
        ("arithmetic", "step < STEPS", "step < STEPS - 1", "fp16_fma"),
    ],
)
def test_a_mistake_in_a_kernel_is_found(
    emulated: Build, tmp_path: Path, file: str, right: str, wrong: str, kernel: str
) -> None:
    text = (SOURCES / f"{file}.cu").read_text()
    assert right in text
    source = tmp_path / "source" / f"{file}.cu"
    source.parent.mkdir()
    source.write_text(text.replace(right, wrong))
    done = emulated.rebuilt(source, tmp_path).run(kernel, "--small", "--check", "--repeat", "0")
    assert done.returncode == 1
    assert lines(done.stdout)[kernel].check == "FAILED"
    assert "1 of 1 gave a wrong result" in done.stderr


def test_a_faulty_kernel_that_turns_out_right_is_reported(emulated: Build, tmp_path: Path) -> None:
    source = tmp_path / "source" / "yax.cu"
    source.parent.mkdir()
    cured = "blockIdx.x, gridDim.x"
    text = (SOURCES / "yax.cu").read_text()
    mistake = "static_cast<size_t>(blockIdx.x) * blockDim.x, thread_count()"
    assert mistake in text
    source.write_text(text.replace(mistake, cured))
    done = emulated.rebuilt(source, tmp_path).run("yax_faulty", "--small", "--check", "--repeat", "0")
    assert done.returncode == 1


def test_the_stated_intensities_are_the_published_ones(table: dict[str, Line]) -> None:
    for name, intensity in {
        "stream_add": 1 / 12,
        "stream_mul": 1 / 8,
        "stream_triad": 1 / 6,
        "stream_fma": 1 / 2,
        "fma_sweep_20": 10,
        "fma_sweep_60": 30,
        "fma_sweep_1024": 512,
        "matrix_add_row": 1 / 24,
        "matrix_add_col": 1 / 24,
    }.items():
        assert table[name].flop / table[name].bytes == pytest.approx(intensity), name


def test_the_matrix_product_states_two_n_cubed(emulated: Build) -> None:
    line = lines(emulated.run("matmul_naive", "--n", "64", "--repeat", "0").stdout)["matmul_naive"]
    assert (line.flop, line.bytes, line.error, line.check) == (2 * 64**3, 3 * 8 * 64**2, None, "-")


def test_default_sizes_shrink_until_they_fit(emulated: Build) -> None:
    done = emulated.run("stream_add", "--check", "--repeat", "0", environment={**os.environ, "EMULATED_MEMORY_MB": "1"})
    assert done.returncode == 0, done.stderr
    line = lines(done.stdout)["stream_add"]
    assert line.check == "ok"
    assert line.n == 2**16  # 8 bytes each, at most nine tenths of a MiB
    assert f"n reduced from {2**28} to {2**16}" in done.stderr


def test_a_size_asked_for_that_does_not_fit_is_refused(emulated: Build) -> None:
    done = emulated.run("stream_add", "--n", "1000000", environment={**os.environ, "EMULATED_MEMORY_MB": "1"})
    assert done.returncode == 2
    assert "needs 0.01 GB" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no kernel named"),
        (["nope"], "no kernel is called 'nope'"),
        (["hbm_copy,"], "no kernel is called ''"),
        (["hbm_copy", "--n"], "--n needs a whole number"),
        (["hbm_copy", "--n", "-8"], "--n needs a whole number"),
        (["hbm_copy", "--n", "8x"], "--n needs a whole number"),
        (["hbm_copy", "small_grid"], "separate the names by commas"),
        (["hbm_copy", "--fast"], "unknown option --fast"),
    ],
)
def test_a_wrong_command_line_is_refused_with_the_usage(emulated: Build, words: list[str], message: str) -> None:
    done = emulated.run(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "usage:" in done.stderr


def test_every_kernel_is_a_function_of_the_sources(listed: dict[str, dict[str, str]]) -> None:
    text = "\n".join(path.read_text() for path in SOURCES.glob("*.cu"))
    functions = set(re.findall(r"__global__ void (?:__\w+__\([^)]*\)\s+)?(\w+)\(", text))
    assert {facts["function"].split("<")[0] for facts in listed.values()} == {
        name for name in functions if not name.startswith("fill")
    }


def test_every_kernel_states_its_bytes_and_operations(listed: dict[str, dict[str, str]]) -> None:
    for name, facts in listed.items():
        assert re.search(r"\((hbm|l2|lds)\)$", facts["bytes"]), name
        assert facts["flop"], name


def test_the_readme_lists_every_kernel_with_its_limit(listed: dict[str, dict[str, str]]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ((?:\\\||[^|])+) \|", (SOURCES / "README.md").read_text(), re.MULTILINE)
    kernels = {name: limit.replace("\\|", "|") for name, limit in rows if name in listed}
    assert kernels == {name: facts["limit"] for name, facts in listed.items()}
    assert f"{len(listed)} kernels" in (SOURCES / "README.md").read_text()


def test_kernels_that_were_recorded_keep_their_labels(shared: Path, listed: dict[str, dict[str, str]]) -> None:
    with (shared / "ncu" / "labels.csv").open() as file:
        recorded = {row["kernel"]: set(row["acceptable_labels"].split("|")) for row in csv.DictReader(file)}
    ours = {facts["function"]: set(facts["limit"].split("|")) for facts in listed.values()}
    assert recorded.items() <= ours.items()
