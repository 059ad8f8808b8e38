"""The tool check_counters: profile kernels with known work on this machine and compare every metric with it."""

from __future__ import annotations

import json
import os
import sys

from ..analysis.base.problems import BadArgument, MissingTool, NotFound
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.catalogue.search import select_metrics
from ..analysis.counter_check import known_kernels
from ..analysis.counter_check.metric_verdicts import meanings
from ..analysis.planning.plan import plan
from ..analysis.store.store import Store
from .base.parameters import DeviceName, MetricNames
from .device.machine.model import Device, Roots
from .device.machine.survey import survey
from .get_run import RunResult, run_result
from .running import counter_check
from .running import start as launch
from .running.command import inherited_environment
from .running.drivers import registry
from .running.job import CallStep
from .running.profile_start import ProfileTask, start_profile
from .running.profiled_program import subject
from .running.profiler_choice import choose, facts
from .running.request import ProfileRequest
from .running.run_state import ProfileRun

_TIMEOUT_S = 1800.0
_EVERY = (1, 100)
"""Launches to count: all of them, whether the profiler numbers them by kernel or all together."""


def check_counters(
    store: Store,
    device: DeviceName | None = None,
    profiler: registry.ProfilerName = "auto",
    metrics: MetricNames | None = None,
    wait_s: float = 45,
) -> RunResult:
    """Check the profiler and our formulas on this GPU: profile kernels with known bytes, operations, waves, conflicts
    and hits, and compare every metric that they determine. Shows which are right here, and why others are not."""
    environment = inherited_environment(os.environ)
    machine = survey(Roots())
    if not machine.gpus:
        raise MissingTool(
            "There are no counters to check", "no GPU is visible here", "rooflens doctor shows what is missing"
        )
    choice = choose(machine, device, profiler, environment)
    if choice.target == "cpu" or choice.target not in catalog.targets_with_metrics():
        raise NotFound(
            f"There are no kernels with known work for {choice.target}",
            "check_counters supports GPUs whose counters have metrics",
            f"Known: {', '.join(t for t in catalog.targets_with_metrics() if t != 'cpu')}",
        )
    for setting in choice.settings:
        # It stops the device's counters, so that every check would fail.
        if setting.code == "power_level" and not setting.sound and setting.device == choice.device.index:
            raise MissingTool("The counters of this GPU are stopped", setting.text, setting.fix)
    names = determinable(choice.target, metrics)
    run_id, folder = launch.new_run(store)
    place = folder / counter_check.FOLDER
    place.mkdir(mode=0o700)
    launches = known_kernels.launches(choice.target, device_facts(choice.target, choice.device))
    plan_file = place / counter_check.PLAN
    plan_file.write_text(json.dumps([one.model_dump() for one in launches]), encoding="utf-8")
    called = f"{choice.device.vendor}:{0 if choice.mask else choice.device.index}"
    program = f"{__package__}.device.counter_check.program"
    command = [sys.executable, "-P", "-m", program, called, str(plan_file), str(place)]
    profiled = subject(command, None, "/", {}, environment)
    planned = plan(choice.target, names)
    request = ProfileRequest(
        command=profiled.command,
        passes=planned.passes,
        kernel="known_",
        launches=_EVERY,
        replay=registry.profiler(choice.profiler.name).REPLAY,
        target=choice.target,
        facts=facts(choice.device),
    )
    stated = ProfileRun(
        run_id=run_id,
        name=f"check of {choice.profiler.name} on {choice.target}",
        tags=["check"],
        metrics=names,
        timeout_s=_TIMEOUT_S,
    )
    task = ProfileTask(profiled, choice, request, planned, must_end_well=True)
    start_profile(store, stated, task, CallStep.of("comparing", counter_check.judge, run_id=run_id))
    return run_result(store, folder, wait_s)


def determinable(target: str, asked: list[str] | None) -> list[str]:
    """Return the requested metrics, or all, that these kernels determine; raise BadArgument if there are none."""
    with_meaning = meanings(target)
    chosen = [metric.name for metric in select_metrics(target, asked or ["*"])]
    names = [name for name in chosen if name in with_meaning]
    if not names:
        raise BadArgument(
            "No kernel here determines any of these metrics",
            ", ".join(chosen[:5]),
            "Omit metrics to check all that can be determined",
        )
    return names


def device_facts(target: str, device: Device) -> dict[str, float]:
    """Return the facts of the target and the product, updated with what the driver reports for this device."""
    stated = {name: fact.value for name, fact in targets.gpu(target).facts.items()} | facts(device)
    stated |= {"cu_per_gpu": device.compute_units} if device.compute_units else {}
    if "cu_per_gpu" not in stated:
        raise NotFound("The number of compute units is unknown", "neither the driver nor the product name states it")
    return {name: float(value) for name, value in stated.items()}
