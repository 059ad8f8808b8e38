"""Readable names of C++ kernels, whatever the machine's C++ library can take apart."""

from __future__ import annotations

import pytest

from rooflens.tools.profiles.merging import demangled_names as module
from rooflens.tools.profiles.merging.demangled_names import demangle_name

LONG = "_ZN7cutlass13device_kernelINS_" + "4gemm" * 300 + "EEvT_"


@pytest.fixture
def library():
    if module._library() is None:
        pytest.skip("needs a C++ library (libstdc++ or libc++abi)")


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [
        ("_Z4axpyIfLi4EEvPT_S0_f", "void axpy<float, 4>(float*, float, float)"),
        ("_Z6kernelPfi", "kernel(float*, int)"),
        ("_ZN2at6native12_GLOBAL__N_16reduceEv", "at::native::(anonymous namespace)::reduce()"),
    ],
)
@pytest.mark.usefixtures("library")
def test_a_mangled_name_is_taken_apart(mangled, readable):
    assert demangle_name(mangled) == readable


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused_add_0",
        "void k<(int)4>(T1 *)",
        "nvjet_sm90_tst_64x64",
        "_Z",
        "_Znonsense!",
        "_ZZZZZ",
        "",
        "_Z\x1b[31m",
    ],
)
def test_any_other_name_stays_as_it_is(name):
    assert demangle_name(name) == name


def test_without_a_library_names_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(module, "_library", lambda: None)
    demangle_name.cache_clear()
    assert demangle_name("_Z6kernelPfi") == "_Z6kernelPfi"
    demangle_name.cache_clear()


def test_a_name_too_long_for_the_library_keeps_its_classes_and_stays_apart():
    one, other = demangle_name(LONG), demangle_name(LONG.replace("EEvT_", "ELi1EEvT_"))
    assert one.startswith("cutlass::device_kernel<...#") and one.endswith(">")
    assert one != other and len(one) < 60
    mainloop = "NS1_25CollectiveMainloopFwdSm90ILi2EN4cute5tupleIJNS5_1CILi128EEENS7_ILi1EEES9_EEELi128EEE"
    name = "_ZN7cutlass13device_kernelIN5flash20enable_sm90_or_laterINS1_16FlashAttnFwdSm90I" + mainloop * 12 + "EEEvT_"
    assert len(name) > 1000
    assert demangle_name(name).startswith("cutlass::device_kernel<FlashAttnFwdSm90, CollectiveMainloopFwdSm90, ...#")


@pytest.mark.parametrize("text", ["_Z1f" + "P" * 200_000 + "i", "_Z1fI" + "S_" * 400 + "E", "_ZN" + "1a" * 499])
def test_names_made_to_harm_are_answered_at_once(text):
    assert len(demangle_name(text)) <= max(len(text), 4000)


@pytest.mark.usefixtures("library")
def test_a_name_that_grows_without_end_is_not_shown():
    # Each parameter is a pair of the one before: 2^18 times as long in the end.
    seq = "0123456789ABCDEFGHIJ"
    bomb = "_Z1f1AIiiE" + "".join(f"S_IS{n}_S{n}_E" for n in seq[:18])
    assert demangle_name(bomb).startswith("_Z1f") and len(demangle_name(bomb)) <= 4000
