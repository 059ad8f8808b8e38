"""Hidden tests: the same forecasts and analyses in FP64 with torch, all members at once, in the ensemble's space.

Tolerances: fields and gauges may be off by FIELD of the spread of the ensemble (root mean squares), numbers of a cycle
or a step by NUMBER of themselves, ranks by RANKS of all cells.
"""

import math

import numpy as np
import torch

FIELD, NUMBER, RANKS = 0.02, 0.005, 0.02
OUTLIER = 6.0
"""Observations whose departure exceeds so many standard deviations are left out."""


def _fields(chosen, shape, count, amplitude, model, most):
    """Smooth random heights and the currents in balance with them."""
    rows, columns = shape
    ky, kx = np.meshgrid(np.fft.fftfreq(rows, 1 / rows), np.fft.rfftfreq(columns, 1 / columns), indexing="ij")
    size = np.hypot(kx, ky)
    inside = (size > 0) & (size <= most)
    noise = chosen.normal(size=(count, *size.shape)) + 1j * chosen.normal(size=(count, *size.shape))
    height = np.fft.irfft2(noise * inside, s=shape)
    height *= amplitude / height.std(axis=(1, 2), keepdims=True)
    ratio = model["gravity"] / model["coriolis"] / (4 * model["spacing"])

    def middle(a, axis, towards):
        return a + np.roll(a, towards, axis)

    north_south = np.roll(height, -1, 1) - np.roll(height, 1, 1)
    east_west = np.roll(height, -1, 2) - np.roll(height, 1, 2)
    return np.stack([height, -ratio * middle(north_south, 2, -1), ratio * middle(east_west, 1, -1)], 1)


def _tendency(state, model, bottom, wind):
    """Time derivatives of heights and currents (..., 3, rows, columns)."""
    space = model["spacing"]

    def east(a):
        return a.roll(-1, -1)

    def west(a):
        return a.roll(1, -1)

    def north(a):
        return a.roll(-1, -2)

    def south(a):
        return a.roll(1, -2)

    def spread(a):
        return model["viscosity"] * (east(a) + west(a) + north(a) + south(a) - 4 * a) / space**2 - model["drag"] * a

    height, u, v = state.unbind(-3)
    depth = model["depth"] + height - bottom
    along, across = 0.5 * (depth + east(depth)) * u, 0.5 * (depth + north(depth)) * v
    d_height = -(along - west(along) + across - south(across)) / space
    spin = model["coriolis"] + (east(v) - v - north(u) + u) / space
    head = model["gravity"] * height + 0.25 * (u**2 + west(u) ** 2 + v**2 + south(v) ** 2)
    turn_u, turn_v = spin * 0.5 * (v + east(v)), spin * 0.5 * (u + north(u))
    d_u = 0.5 * (turn_u + south(turn_u)) - (east(head) - head) / space + spread(u) + wind
    d_v = -0.5 * (turn_v + west(turn_v)) - (north(head) - head) / space + spread(v)
    return torch.stack([d_height, d_u, d_v], -3)


def _step(state, dt, *given):
    one = _tendency(state, *given)
    two = _tendency(state + dt / 2 * one, *given)
    three = _tendency(state + dt / 2 * two, *given)
    four = _tendency(state + dt * three, *given)
    return state + dt / 6 * (one + 2 * two + 2 * three + four)


def _observe(state, window):
    """Values of the kind asked for at places in cells, between the four nearest points of that kind (places, ...)."""
    device = state.device
    kind = torch.as_tensor(window["kind"], device=device).long()
    rows, columns = state.shape[-2:]
    # u lies half a cell to the east of the heights, v half a cell to the north
    x = torch.as_tensor(window["x"], device=device) - 0.5 * (kind == 1)
    y = torch.as_tensor(window["y"], device=device) - 0.5 * (kind == 2)
    left, low = x.floor(), y.floor()
    found = 0
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (y - low if i else 1 - (y - low)) * (x - left if j else 1 - (x - left))
        values = state[..., kind, (low.long() + i) % rows, (left.long() + j) % columns]
        found = found + weight * values
    return found.movedim(-1, 0)


def make(seed, small):
    """A sea in a periodic basin, an ensemble, and windows with observations of a true state."""
    chosen = np.random.default_rng(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape, members, cycles = ((24, 32), 10, 3) if small else ((256, 256), 40, 3)
    least, most = (50, 80) if small else (1500, 2000)
    model = {
        "spacing": 20e3 * (8 if small else 1), "depth": 400.0, "gravity": 9.81, "coriolis": 1e-4, "viscosity": 400.0,
        "drag": 1e-7, "longest_step": 160.0 * (8 if small else 1),
    }  # fmt: skip
    bottom = _fields(chosen, shape, 1, 15.0, model, 5.5)[0, 0]
    row = np.arange(shape[0])[:, None]
    wind = np.tile(chosen.uniform(2e-6, 4e-6) * np.sin(2 * np.pi * row / shape[0]), (1, shape[1]))
    wide = _fields(chosen, shape, members + 1, 0.4, model, 1.5 if small else 2.5)
    base = _fields(chosen, shape, 1, 2.0, model, 6.5)
    given = (model, torch.as_tensor(bottom, device=device), torch.as_tensor(wind, device=device))
    truth, windows = torch.as_tensor((base + wide[-1:])[0], device=device), []
    for _ in range(cycles):
        interval = float(chosen.uniform(6.2, 8.8) * (1280.0 if small else 1150.0))
        steps = math.ceil(interval / model["longest_step"])
        for _ in range(steps):
            truth = _step(truth, interval / steps, *given)
        count = int(chosen.integers(least, most))
        window = {
            "interval": interval, "kind": chosen.choice(3, count, p=[0.6, 0.2, 0.2]).astype(np.int32),
            "x": chosen.uniform(0, shape[1], count), "y": chosen.uniform(0, shape[0], count),
        }  # fmt: skip
        window["sigma"] = np.where(window["kind"] == 0, 0.15, 0.03) * chosen.uniform(0.8, 1.25, count)
        window["perturbations"] = window["sigma"][:, None] * chosen.normal(size=(count, members))
        window["perturbations"] -= window["perturbations"].mean(1, keepdims=True)
        noise = window["sigma"] * chosen.normal(size=count).clip(-3, 3)
        bad = chosen.random(count) < 0.03
        noise[bad] += chosen.choice([-1, 1], bad.sum()) * np.where(window["kind"] == 0, 12.0, 2.5)[bad]
        window["values"] = _observe(truth, window).cpu().numpy() + noise
        window["truth"] = truth.cpu().numpy()
        windows.append(window)
    gauges = chosen.permutation(shape[0] * shape[1])[: 6 if small else 64]
    return {
        "model": model, "bottom": bottom, "wind": wind, "ensemble": base + wide[:-1], "windows": windows,
        "gauges": np.stack([gauges // shape[1], gauges % shape[1]], 1), "inflation": 1.05,
    }  # fmt: skip


def _scores(state, truth):
    """Continuous ranked probability scores and counts of ranks, by kind of field."""
    members = len(state)
    off = (state - truth).abs().mean((0, 2, 3))
    ordered = state.sort(0).values
    factor = (2 * torch.arange(members, device=state.device) - members + 1).double()
    among = torch.einsum("n,nkij->kij", factor, ordered).mean((1, 2)) / members**2
    ranks = (state < truth).sum(0).flatten(1)
    return off - among, torch.stack([torch.bincount(r, minlength=members + 1) for r in ranks])


def _assimilate(case, device):
    """What run has to return, and the spread of gauges."""
    model = case["model"]
    state = torch.as_tensor(case["ensemble"], device=device).double()
    bottom, wind = (torch.as_tensor(case[name], device=device) for name in ("bottom", "wind"))
    rows, columns = torch.as_tensor(case["gauges"], device=device).T
    members = len(state)
    want = {
        name: [] for name in
        ("gauges", "courant", "energy", "used", "signal", "background", "analysis", "crps", "ranks", "gauge_spread")
    }  # fmt: skip
    for window in case["windows"]:
        steps = math.ceil(window["interval"] / model["longest_step"])
        dt = window["interval"] / steps
        for _ in range(steps):
            state = _step(state, dt, model, bottom, wind)
            height, u, v = state.unbind(1)
            depth = model["depth"] + height - bottom
            want["gauges"].append(height[:, rows, columns].mean(0))
            want["gauge_spread"].append(height[:, rows, columns].var(0))
            speed = (u**2 + v**2).sqrt() + (model["gravity"] * depth).sqrt()
            want["courant"].append(speed.max() * dt / model["spacing"])
            want["energy"].append((0.5 * depth * (u**2 + v**2) + 0.5 * model["gravity"] * height**2).mean())
        crps, ranks = _scores(state, torch.as_tensor(window["truth"], device=device))
        want["crps"].append(crps)
        want["ranks"].append(ranks)
        values, sigma, noise = (
            torch.as_tensor(window[name], device=device) for name in ("values", "sigma", "perturbations")
        )
        seen = _observe(state, window)
        departure = values - seen.mean(1)
        used = departure.abs() <= OUTLIER * (sigma**2 + seen.var(1)).sqrt()
        sigma = sigma[used]
        scaled = (seen - seen.mean(1, keepdim=True))[used] / sigma[:, None] / (members - 1) ** 0.5
        inner = scaled.T @ scaled
        pull = (values[used][:, None] + noise[used] - seen[used]) / sigma[:, None]
        one = torch.eye(members, device=device).double()
        weights = torch.linalg.solve(one + inner, scaled.T @ pull)
        want["signal"].append(torch.trace(torch.linalg.solve(one + inner, inner)))
        off = (state - state.mean(0)) / (members - 1) ** 0.5
        state = state + torch.einsum("mkij,mn->nkij", off, weights)
        state = state.mean(0) + case["inflation"] * (state - state.mean(0))
        after = values - _observe(state.mean(0), window)
        want["used"].append(used)
        want["background"].append((departure[used] / sigma).square().mean().sqrt())
        want["analysis"].append((after[used] / sigma).square().mean().sqrt())
    want = {name: values if name == "used" else torch.stack(values).cpu().numpy() for name, values in want.items()}
    want["used"] = [one.cpu().numpy() for one in want["used"]]
    return want | {"mean": state.mean(0).cpu().numpy(), "spread": state.std(0).cpu().numpy()}


def _array(values):
    return values.cpu().numpy() if torch.is_tensor(values) else np.asarray(values)


def check(case, result, device):
    """What is wrong, or None."""
    with torch.no_grad():
        want = _assimilate(case, device)
    have = {name: _array(result[name]).astype(np.float64) for name in want if name not in ("used", "gauge_spread")}
    used = [_array(one).astype(bool) for one in result["used"]]
    if len(used) != len(want["used"]) or not all(map(np.array_equal, used, want["used"])):
        return "other observations were used"
    for name, values in have.items():
        if values.shape != want[name].shape or not np.isfinite(values).all():
            return f"{name} has the shape {values.shape}, not {want[name].shape}, or is not finite"
    for name in ("courant", "energy", "signal", "background", "analysis", "crps"):
        off = np.abs(have[name] - want[name]) / np.abs(want[name])
        if off.max() > NUMBER:
            return f"{name} is off by {off.max():.2g} of itself"
    if np.abs(have["ranks"] - want["ranks"]).sum(-1).max() > RANKS * case["bottom"].size:
        return "ranks are not those of the truth in the ensemble"
    off = np.sqrt(np.square(have["gauges"] - want["gauges"]).mean(1) / want["gauge_spread"].mean(1))
    if off.max() > FIELD:
        return f"gauges are off by {off.max():.2g} of the spread"
    scale = np.sqrt(np.square(want["spread"]).mean((1, 2)))
    for name in ("mean", "spread"):
        off = np.sqrt(np.square(have[name] - want[name]).mean((1, 2))) / scale
        if off.max() > FIELD:
            return f"{name} is off by {off.max():.2g} of the spread"
    return None
