"""Hidden tests: the same flow and tracers in FP64, in NumPy for small cases and in PyTorch for large ones.

Tolerances: fields 1e-4 in density and velocity (velocities are up to about 0.1), tracers 0.05 cells (99.5 % of them),
norms 0.1 % (and 1e-7), the histogram 0.5 % of its sum and visits 0.5 % of theirs, as sums of absolute differences.
"""

import subprocess
from pathlib import Path

import numpy as np
import torch

STEPS_X = (0, 1, 0, -1, 0, 1, -1, -1, 1)
STEPS_Y = (0, 0, 1, 0, -1, 1, 1, -1, -1)
BACK = (0, 3, 4, 1, 2, 7, 8, 5, 6)
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
BINS, FASTEST, PATCH = 32, 0.16, 32
SIZES = ("density", "velocity_x", "velocity_y", "tracer_x", "tracer_y", "norms", "histogram", "visits")


def build(version, folder):
    """Build a version; its compiler's words are the problem if it fails."""
    subprocess.run(["sh", str(version / "build.sh"), str(folder)], check=True)


def make(seed, small):
    """A rectangle with discs as walls, smooth random velocities at the beginning, and tracers."""
    chosen = np.random.default_rng(seed)
    width, height, steps, tracers = (64, 48, 30, 200) if small else (1024, 512, 600, 20000)
    y, x = np.mgrid[:height, :width]
    solid = np.zeros((height, width), dtype=bool)
    for _ in range(3 if small else 24):
        middle, radius = chosen.uniform(0, 1, 2) * (width, height), chosen.uniform(0.03, 0.08) * height
        solid |= (x - middle[0]) ** 2 + (y - middle[1]) ** 2 < radius**2
    stream = np.zeros((height, width))
    for _ in range(12):
        waves = chosen.integers(-3, 4, 2)
        phase = 2 * np.pi * (waves[0] * x / width + waves[1] * y / height) + chosen.uniform(0, 6)
        stream += chosen.normal() * np.sin(phase) / (1 + np.abs(waves).sum())
    down, across = np.gradient(stream)
    scale = 0.06 / max(np.abs(down).max(), np.abs(across).max())
    return {
        "width": width, "height": height, "steps": steps, "tracers": tracers,
        "viscosity": float(np.float32(chosen.uniform(0.02, 0.04))), "sponge": 0.125,
        "force": [float(np.float32(f)) for f in chosen.uniform(-4e-6, 4e-6, 2)], "solid": solid,
        "velocity_x": (down * scale * ~solid).astype(np.float32),
        "velocity_y": (-across * scale * ~solid).astype(np.float32),
        "tracer_x": chosen.uniform(0, width - 1, tracers).astype(np.float32),
        "tracer_y": chosen.uniform(0, height - 1, tracers).astype(np.float32),
    }  # fmt: skip


def run(folder, case):
    """The results as the program writes them, by name."""
    given, out = Path(folder) / "case", Path(folder) / "out"
    with given.open("wb") as file:
        np.array([case[k] for k in ("width", "height", "steps", "tracers")], dtype=np.int32).tofile(file)
        np.array([case["viscosity"], case["sponge"], *case["force"]], dtype=np.float32).tofile(file)
        case["solid"].astype(np.uint8).tofile(file)
        for name in ("velocity_x", "velocity_y", "tracer_x", "tracer_y"):
            case[name].tofile(file)
    out.unlink(missing_ok=True)
    subprocess.run([str(Path(folder) / "lattice"), str(given), str(out)], check=True, stdout=subprocess.DEVNULL)
    return out.read_bytes()


def _parts(case, result):
    """The arrays in the bytes of a result, or None if there are too few or too many."""
    cells, patches = case["width"] * case["height"], -(-case["width"] // PATCH) * -(-case["height"] // PATCH)
    sizes = (cells, cells, cells, case["tracers"], case["tracers"], 3 * case["steps"], BINS, patches)
    if len(result) != 4 * sum(sizes):
        return None
    parts, at = {}, 0
    for name, size in zip(SIZES, sizes, strict=True):
        parts[name] = np.frombuffer(result, np.int32 if name == "visits" else np.float32, size, at).astype(np.float64)
        at += 4 * size
    return parts


class _NumPy:
    """The few functions that the flow needs, in NumPy."""

    def __init__(self, device):
        del device

    where, floor, stack = staticmethod(np.where), staticmethod(np.floor), staticmethod(np.stack)
    host = staticmethod(np.asarray)

    def array(self, values):
        return np.asarray(values)

    def roll(self, values, x, y):
        return np.roll(values, (y, x), (0, 1))

    def whole(self, values):
        return values.astype(np.int64)

    def count(self, numbers, size, weights=None):
        return np.bincount(numbers.ravel(), None if weights is None else weights.ravel(), minlength=size)


class _Torch:
    """The same in PyTorch, on a device."""

    where, floor, stack = staticmethod(torch.where), staticmethod(torch.floor), staticmethod(torch.stack)

    def __init__(self, device):
        self.device = device

    def host(self, values):
        return values.cpu().numpy()

    def array(self, values):
        return torch.as_tensor(values, device=self.device)

    def roll(self, values, x, y):
        return torch.roll(values, (y, x), (0, 1))

    def whole(self, values):
        return values.long()

    def count(self, numbers, size, weights=None):
        return torch.bincount(numbers.ravel(), None if weights is None else weights.ravel(), minlength=size)


def _equilibrium(i, density, ux, uy):
    along = STEPS_X[i] * ux + STEPS_Y[i] * uy
    return WEIGHTS[i] * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * (ux**2 + uy**2))


def _flow(case, of):
    """All results in FP64."""
    width, height = case["width"], case["height"]
    solid = of.array(case["solid"])
    ux, uy, px, py = (
        of.array(case[k].astype(np.float64)) for k in ("velocity_x", "velocity_y", "tracer_x", "tracer_y")
    )
    edge = np.minimum(np.arange(width), width - 1 - np.arange(width)) / (0.05 * width)
    rate = of.array(1 / (3 * (case["viscosity"] + case["sponge"] * np.exp(-(edge**2))) + 0.5))[None]
    walls = [of.roll(solid, STEPS_X[i], STEPS_Y[i]) for i in range(9)]
    still = of.array(np.ones((height, width)))
    f = [_equilibrium(i, still, ux, uy) for i in range(9)]
    norms, histogram, visits = [], 0, 0
    across, down = -(-width // PATCH), -(-height // PATCH)
    for _ in range(case["steps"]):
        f = [of.where(walls[i], f[BACK[i]], of.roll(f[i], STEPS_X[i], STEPS_Y[i])) for i in range(9)]
        density = sum(f)
        ux = sum(STEPS_X[i] * f[i] for i in range(9)) / density + case["force"][0] / rate
        uy = sum(STEPS_Y[i] * f[i] for i in range(9)) / density + case["force"][1] / rate
        f = [(1 - rate) * f[i] + rate * _equilibrium(i, density, ux, uy) for i in range(9)]
        f = [of.where(solid, WEIGHTS[i] * still, f[i]) for i in range(9)]
        density = of.where(solid, still, sum(f))
        ux = of.where(solid, 0 * still, sum(STEPS_X[i] * f[i] for i in range(9)) / density)
        uy = of.where(solid, 0 * still, sum(STEPS_Y[i] * f[i] for i in range(9)) / density)
        x, y = of.whole(px), of.whole(py)
        right, above, a, b = (x + 1) % width, (y + 1) % height, px - x, py - y
        moved = []
        for u in (ux, uy):
            low = (1 - a) * u[y, x] + a * u[y, right]
            moved.append((1 - b) * low + b * ((1 - a) * u[above, x] + a * u[above, right]))
        px, py = (px + moved[0]) % width, (py + moved[1]) % height
        visits = visits + of.count(of.whole(py) // PATCH * across + of.whole(px) // PATCH, across * down)
        square = ux**2 + uy**2
        norms.append(of.stack([density.mean(), (0.5 * density * square).mean(), square.max() ** 0.5]))
        bins = of.whole(square**0.5 * (BINS / FASTEST))
        histogram = histogram + of.count(of.where(bins < BINS, bins, BINS - 1), BINS, density)
    found = {
        "density": density, "velocity_x": ux, "velocity_y": uy, "tracer_x": px, "tracer_y": py,
        "norms": of.stack(norms), "histogram": histogram, "visits": visits,
    }  # fmt: skip
    return {name: of.host(value).ravel().astype(np.float64) for name, value in found.items()}


def check(case, result, device):
    """What is wrong, or None."""
    have = _parts(case, result)
    if have is None:
        return f"the results have {len(result)} bytes"
    want = _flow(case, _NumPy(device) if case["width"] < 256 else _Torch(device))
    for name in ("density", "velocity_x", "velocity_y"):
        off = np.abs(have[name] - want[name]).max()
        if not off <= 1e-4:
            return f"{name} is off by {off:.2g}"
    for name, size in (("tracer_x", case["width"]), ("tracer_y", case["height"])):
        off = np.abs(have[name] - want[name])
        off = np.minimum(off, size - off)
        if not (off <= 0.05).mean() >= 0.995:
            return f"{name} is off by more than 0.05 for {(~(off <= 0.05)).mean():.1%} of the tracers"
    off = np.abs(have["norms"] - want["norms"])
    if not (off <= 1e-3 * np.abs(want["norms"]) + 1e-7).all():
        return f"norms are off by {off.max():.2g}"
    for name in ("histogram", "visits"):
        off = np.abs(have[name] - want[name]).sum() / want[name].sum()
        if not off <= 5e-3:
            return f"{name} is off by {off:.2g}"
    return None
