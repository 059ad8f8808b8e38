"""What a rocprofv3 can do, told by its own texts or by a version number."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool
from rooflens.tools.running.drivers.rocprofv3.command import features, features_of

BASE = (
    "usage: rocprofv3 --input --output-file --output-directory --kernel-trace --output-format {csv,json,pftrace,otf2}"
)


def test_the_help_of_a_real_rocprofv3_tells_its_features(shared: Path) -> None:
    folder = shared / "rocprofv3"
    texts = [(folder / f).read_text() for f in ("rocprofv3_help.txt", "version.txt")]
    found = features(*texts)
    assert found.version == "1.3.2"
    assert found.formats == ("csv", "json", "pftrace", "otf2", "rocpd")
    assert (found.definitions, found.signal_option, found.kernel_replay) == ("list", True, ())
    assert found.attaching and found.attached_output and found.attached_sampling and not found.into_containers
    assert found.tracing == ("--runtime-trace", "--kfd-trace")


@pytest.mark.parametrize(
    ("options", "version", "schema"),
    [
        ("", "0.4", None),
        ("--pmc", "0.5", None),
        ("--pmc --extra-counters --collection-period", "0.6", "map"),
        ("--pmc --extra-counters --collection-period --agent-index", "0.7", None),
        ("--pmc --extra-counters --collection-period --agent-index --version", "1.0", "list"),
    ],
)
def test_a_rocprofv3_without_a_version_text_is_dated_by_its_options(
    options: str, version: str, schema: str | None
) -> None:
    found = features(f"{BASE} {options}", "usage: rocprofv3: error: unrecognized arguments: --version")
    assert (found.version, found.definitions) == (version, schema)


def test_formats_and_sampling_are_those_of_the_help() -> None:
    assert not features(BASE, "").pc_sampling
    assert features(f"{BASE} --pc-sampling-beta-enabled --pc-sampling-interval", "").pc_sampling
    assert features(BASE, "").formats == ("csv", "json", "pftrace", "otf2")
    assert features(BASE.replace("otf2}", "otf2,rocpd}"), "").formats[-1] == "rocpd"


def test_kernel_replay_needs_its_beta_switch_and_the_mode_where_there_is_one() -> None:
    switch = ("--kernel-replay-beta-enabled", "true")
    assert not features(f"{BASE} --replay-mode {{kernel,application}}", "").kernel_replay
    assert features(f"{BASE} --kernel-replay-beta-enabled", "").kernel_replay == switch
    both = features(f"{BASE} --replay-mode --kernel-replay-beta-enabled", "").kernel_replay
    assert both == ("--replay-mode", "kernel", *switch)


@pytest.mark.parametrize(
    ("version", "sdk", "schema", "rocpd"),
    [
        ("0.4.0", "0.4.0", None, False),
        ("6.4.1", "0.6", "map", False),
        ("7.12", "1.1", "list", True),
        ("10.0", "1.3.5", "list", True),
        (None, "1.3.2", "list", True),
    ],
)
def test_a_version_of_rocm_or_of_the_sdk_stands_for_features(
    version: str | None, sdk: str, schema: str | None, rocpd: bool
) -> None:
    found = features_of(version)
    assert (found.version, found.definitions, "rocpd" in found.formats) == (sdk, schema, rocpd)
    assert not found.kernel_replay
    assert found.attaching == sdk.startswith(("1.1", "1.3"))


@pytest.mark.parametrize(("version", "error"), [("seven", BadArgument), ("6.1", MissingTool), ("0.3", MissingTool)])
def test_versions_that_cannot_be_driven_are_refused(version: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        features_of(version)
    with pytest.raises(MissingTool, match=r"too old.*--output-format"):
        features("-i --input --kernel-trace --output-file --output-directory", "")
