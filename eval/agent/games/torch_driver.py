"""Measures a candidate against a PyTorch reference in a separate process; needs torch, but not rooflens.

python torch_driver.py REFERENCE.py CANDIDATE.py [--seed S] [--repeat R] [--tolerance T] [--reference cpu|device]

The reference contains Model, get_inputs and get_init_inputs, like the tasks of KernelBench; the candidate contains
ModelNew. Without ModelNew, Model is measured: the reference itself. The last line printed is the report as JSON.
"""

import argparse
import importlib.util
import json
import math
import time

import torch

TRIALS = 3
"""Number of input sets, each from a different seed, for which a candidate must be correct."""
COLD_BYTES = 256 << 20


def module(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def made(kind, arguments, seed, device):
    """Create a model; the seed gives reference and candidate the same weights."""
    torch.manual_seed(seed)
    model = kind(*arguments)
    return model.to(device) if hasattr(model, "to") else model


def on(device, values):
    return [value.to(device) if hasattr(value, "to") else value for value in values]


def error_of(got, want):
    """Largest difference relative to the largest value; infinite for a different shape or type, and for NaN."""
    if isinstance(want, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(got) != len(want):
            return math.inf
        return max((error_of(g, w) for g, w in zip(got, want)), default=0.0)  # noqa: B905
    if tuple(got.shape) != tuple(want.shape) or got.dtype != want.dtype:
        return math.inf
    have, should = got.cpu().double(), want.cpu().double()
    scale = max(float(should.abs().max()), 1e-30)
    difference = float((have - should).abs().max())
    return math.inf if math.isnan(difference) else difference / scale


def timed(run, device):
    """Time of one call in nanoseconds, with cold caches on a GPU."""
    if device == "cpu":
        begin = time.perf_counter_ns()
        run()
        return float(time.perf_counter_ns() - begin)
    torch.empty(COLD_BYTES, dtype=torch.int8, device=device).fill_(1)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return 1e6 * begin.elapsed_time(end)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("reference")
    parser.add_argument("candidate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=1e-2)
    parser.add_argument("--reference", dest="place", choices=["cpu", "device"], default="device")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    place = device if options.place == "device" else "cpu"
    reference, candidate = module(options.reference, "reference"), module(options.candidate, "candidate")
    torch.manual_seed(options.seed)
    arguments = reference.get_init_inputs()
    model = made(reference.Model, arguments, options.seed, place)
    new = made(getattr(candidate, "ModelNew", None) or candidate.Model, arguments, options.seed, device)
    worst, times = 0.0, []
    with torch.no_grad():
        for trial in range(TRIALS):
            torch.manual_seed(options.seed + trial)
            inputs = reference.get_inputs()
            # Each side has separate inputs, so that a candidate cannot cheat by overwriting them.
            want = model(*on(place, [x.clone() if hasattr(x, "clone") else x for x in inputs]))
            given = on(device, [x.clone() if hasattr(x, "clone") else x for x in inputs])
            worst = max(worst, error_of(new(*given), want))
        right = worst <= options.tolerance
        if right and options.repeat > 0:
            new(*given)
            times = [timed(lambda: new(*given), device) for _ in range(options.repeat)]
    print()
    print(json.dumps({"right": right, "error": worst if math.isfinite(worst) else 1e308, "times_ns": times}))


if __name__ == "__main__":
    main()
