"""Hidden tests: fits, maps, held-out regions and placement written out in FP64, without gpytorch.

The fits are repeated from the starting values. Everything after them is computed from the hyperparameters returned,
which have to be those of the repeated fits, so that small differences of the fits do not add up.

Tolerances: a loss may be off by LOSS; hyperparameters by MOVED of how far they moved (before softplus); means by MEAN
standard deviations, variances by VARIANCE of themselves, exceedances by SHARE, scores by SCORE; a chosen sensor's score
may be SENSOR of itself below the best, and sensor scores and what remains may be off by that as well.
"""

import math
from statistics import NormalDist

import numpy as np
import torch
import torch.nn.functional as F

LOSS, MOVED, MEAN, VARIANCE, SHARE, SCORE, SENSOR = 1e-3, 0.02, 0.02, 0.01, 0.005, 2e-3, 3e-3
RATE, BETAS, EPS, LEVEL, FLOOR = 0.1, (0.9, 0.999), 1e-8, 0.9, 1e-4
LENGTH_PRIOR, SCALE_PRIOR = (3.0, 4.0), (2.0, 1.5)
EARTH_KM, HORIZONTAL_KM, VERTICAL_KM = 6371.0, 100.0, 1.0
POSITIVE = ("outputscale", "lengthscale", "trend_scale", "trend_lengthscale", "noise")
NAMES = ("constant", *POSITIVE)


def make(seed, small):
    """Sites of several pollutants in clusters (regions), a grid with relief, and starting values."""
    chosen = np.random.default_rng(seed)
    count, sites, steps, side, regions, sensors = (2, 48, 12, 14, 4, 5) if small else (8, 512, 20, 96, 10, 20)
    west, south = chosen.uniform(5, 15), chosen.uniform(44, 50)
    wide, high = chosen.uniform(3.5, 4.5), chosen.uniform(2.5, 3.2)
    bumps = chosen.uniform(0, 1, (6, 2)), chosen.uniform(0.1, 0.3, 6), chosen.uniform(200, 900, 6)

    def relief(unit):
        square = ((unit[:, None] - bumps[0]) ** 2).sum(-1)
        return 120 + (bumps[2] * np.exp(-0.5 * square / bumps[1] ** 2)).sum(-1)

    def places(unit):
        return np.stack([west + wide * unit[:, 0], south + high * unit[:, 1], relief(unit)], -1)

    axis = (np.arange(side) + 0.5) / side
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    step = 2 if small else 48 / 20
    kept = (np.arange(int(side / step)) * step).astype(int)
    candidates = (kept[:, None] * side + kept).reshape(-1)
    fields = []
    for number in range(count):
        middles = chosen.uniform(0.05, 0.95, (regions, 2))
        region = chosen.integers(0, regions, sites)
        region[:regions] = np.arange(regions)
        unit = np.clip(middles[region] + chosen.normal(0, 0.13, (sites, 2)), 0, 1)
        where = places(unit)
        where[:, 2] += chosen.normal(0, 30, sites)
        waves = chosen.normal(0, 1, (60, 2)) * chosen.uniform(4, 9)
        rough = np.cos(unit @ waves.T + chosen.uniform(0, 2 * np.pi, 60)).sum(-1) / math.sqrt(30)
        slope = chosen.uniform(-1.2, -0.3) * where[:, 2] / 1000
        noise = chosen.uniform(0.15, 0.35) * chosen.normal(0, 1, sites)
        values = np.exp(chosen.uniform(1.5, 3.5) + chosen.uniform(0.3, 0.7) * (rough + slope + noise))
        starts = [
            {
                "constant": float(chosen.uniform(-0.3, 0.3)), "outputscale": float(chosen.uniform(0.6, 1.4)),
                "lengthscale": (length * chosen.uniform(0.8, 1.25, 3)).tolist(),
                "trend_scale": float(chosen.uniform(0.3, 0.8)), "trend_lengthscale": float(chosen.uniform(0.4, 0.9)),
                "noise": float(chosen.uniform(0.08, 0.4)),
            }
            for length in (0.35, 1.1)
        ]  # fmt: skip
        fields.append({
            "name": f"field {number}", "places": where, "values": values, "regions": region,
            "limit": float(np.quantile(values, chosen.uniform(0.6, 0.9))), "starts": starts,
        })  # fmt: skip
    return {"fields": fields, "grid": places(grid), "candidates": candidates, "steps": steps, "sensors": sensors}


def _project(places, middle):
    east = EARTH_KM * np.cos(np.radians(middle[1])) * np.radians(places[:, 0] - middle[0]) / HORIZONTAL_KM
    north = EARTH_KM * np.radians(places[:, 1] - middle[1]) / HORIZONTAL_KM
    return np.stack([east, north, places[:, 2] / 1000 / VERTICAL_KM], -1)


def _covariance(a, b, p):
    """The kernel between places a (..., n, 3) and b (..., m, 3); hyperparameters have leading dimensions."""
    square = 0
    for axis in range(3):
        length = p["lengthscale"][..., axis, None, None]
        square = square + ((a[..., :, None, axis] - b[..., None, :, axis]) / length) ** 2
    distance = math.sqrt(5) * square.clamp(min=1e-24).sqrt()
    rough = (1 + distance + distance**2 / 3) * torch.exp(-distance)
    away = (a[..., :, None, 2] - b[..., None, :, 2]) / p["trend_lengthscale"][..., None, None]
    smooth = torch.exp(-0.5 * away**2)
    return p["outputscale"][..., None, None] * rough + p["trend_scale"][..., None, None] * smooth


def _positive(raw):
    """Hyperparameters from what Adam changes."""
    made = {name: F.softplus(raw[name]) for name in POSITIVE} | {"constant": raw["constant"]}
    return made | {"noise": made["noise"] + FLOOR}


def _raw(values):
    """What Adam changes, from hyperparameters."""
    made = {name: torch.log(torch.expm1(values[name] - (FLOOR if name == "noise" else 0))) for name in POSITIVE}
    return made | {"constant": values["constant"].clone()}


def _gamma(value, prior):
    shape, rate = prior
    return shape * math.log(rate) + (shape - 1) * value.log() - rate * value - math.lgamma(shape)


def _fit(x, y, values, steps):
    """Losses (fits by steps), hyperparameters and their raw values after Adam, for a batch of fits."""
    raw = {name: value.requires_grad_() for name, value in _raw(values).items()}
    first = {name: torch.zeros_like(value) for name, value in raw.items()}
    second = {name: torch.zeros_like(value) for name, value in raw.items()}
    eye, losses = torch.eye(x.shape[-2], dtype=x.dtype, device=x.device), []
    for step in range(1, steps + 1):
        p = _positive(raw)
        factor = torch.linalg.cholesky(_covariance(x, x, p) + p["noise"][:, None, None] * eye)
        rest = (y - p["constant"][:, None])[..., None]
        white = torch.linalg.solve_triangular(factor, rest, upper=False)[..., 0]
        half = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        likelihood = -0.5 * (white**2).sum(-1) - half - 0.5 * y.shape[-1] * math.log(2 * math.pi)
        prior = _gamma(p["lengthscale"], LENGTH_PRIOR).sum(-1) + _gamma(p["outputscale"], SCALE_PRIOR)
        loss = -(likelihood + prior) / y.shape[-1]
        losses.append(loss.detach())
        gradients = torch.autograd.grad(loss.sum(), list(raw.values()))
        with torch.no_grad():
            for (name, value), grad in zip(raw.items(), gradients, strict=True):
                first[name].mul_(BETAS[0]).add_(grad, alpha=1 - BETAS[0])
                second[name].mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
                size = (second[name] / (1 - BETAS[1] ** step)).sqrt() + EPS
                value.sub_(RATE * first[name] / (1 - BETAS[0] ** step) / size)
    raw = {name: value.detach() for name, value in raw.items()}
    return torch.stack(losses, -1), raw


def _predict(x, y, places, p):
    """Mean and variance of measurements at some places, for one field."""
    eye = torch.eye(len(x), dtype=x.dtype, device=x.device)
    factor = torch.linalg.cholesky(_covariance(x, x, p) + p["noise"] * eye)
    half = torch.linalg.solve_triangular(factor, _covariance(x, places, p), upper=False)
    white = torch.linalg.solve_triangular(factor, (y - p["constant"])[:, None], upper=False)
    total = p["outputscale"] + p["trend_scale"] + p["noise"]
    return p["constant"] + (half * white).sum(0), total - (half**2).sum(0)


def _array(result, name, shape, like):
    """A result as a tensor, or what is wrong with it."""
    if name not in result:
        return None, f"{name} is missing"
    value = result[name]
    if isinstance(value, list | tuple):
        value = np.asarray([v.detach().cpu().numpy() if isinstance(v, torch.Tensor) else v for v in value])
    value = torch.as_tensor(value).detach().to(like.device).double()
    if tuple(value.shape) != tuple(shape):
        return None, f"{name} has the shape {tuple(value.shape)}, not {tuple(shape)}"
    return (value, None) if value.isfinite().all() else (None, f"{name} is not finite")


def check(case, result, device):
    """What is wrong, or None."""
    fields, steps = case["fields"], case["steps"]
    middle = np.median(np.concatenate([field["places"] for field in fields]), axis=0)

    def tensor(values):
        return torch.as_tensor(np.asarray(values), dtype=torch.float64, device=device)

    x = tensor([_project(field["places"], middle) for field in fields])
    logs = tensor([np.log(field["values"]) for field in fields])
    limits = tensor([math.log(field["limit"]) for field in fields])
    shift, scale = logs.mean(1), logs.std(1, correction=0)
    y = (logs - shift[:, None]) / scale[:, None]
    grid = tensor(_project(case["grid"], middle))
    count, sites, starts = len(fields), x.shape[1], len(fields[0]["starts"])

    have, shapes = {}, {
        "losses": (count, starts, steps), "chosen": (count,), "mean": (count, len(grid)),
        "variance": (count, len(grid)), "exceedance": (count, len(grid)), "held_out_mean": (count, sites),
        "held_out_variance": (count, sites), "sensors": (case["sensors"],), "sensor_scores": (case["sensors"],),
        "remaining": (count,),
    }  # fmt: skip
    groups = {"hyperparameters": NAMES, "scores": ("rmse", "nlpd", "coverage", "crps")}
    for name, shape in shapes.items():
        have[name], problem = _array(result, name, shape, x)
        if problem:
            return problem
    for group, names in groups.items():
        have[group] = {}
        for name in names:
            shape = (count, 3) if name == "lengthscale" else (count,)
            have[group][name], problem = _array(result.get(group, {}), name, shape, x)
            if problem:
                return f"{group}: {problem}"
    p = have["hyperparameters"]
    if any((p[name] <= (FLOOR if name == "noise" else 0)).any() for name in POSITIVE):
        return "hyperparameters are not positive"
    return (
        _check_fits(case, have, x, y, tensor)
        or _check_maps(have, x, y, grid, shift, scale, limits)
        or _check_held_out(case, have, x, y, logs, shift, scale)
        or _check_sensors(have, x, grid[torch.as_tensor(case["candidates"], device=device)])
    )


def _check_fits(case, have, x, y, tensor):
    count, starts = len(x), len(case["fields"][0]["starts"])
    values = {name: tensor([s[name] for field in case["fields"] for s in field["starts"]]) for name in NAMES}
    before = _raw(values)
    losses, after = _fit(x.repeat_interleave(starts, 0), y.repeat_interleave(starts, 0), values, case["steps"])
    losses = losses.view(count, starts, -1)
    off = (have["losses"] - losses).abs().max().item()
    if not off <= LOSS:
        return f"losses are off by {off:.3g}"
    chosen = have["chosen"].long()
    if (chosen < 0).any() or (chosen >= starts).any():
        return "a chosen start does not exist"
    own = losses[..., -1].gather(1, chosen[:, None])[:, 0]
    if (own > losses[..., -1].amin(1) + LOSS).any():
        return "a chosen start does not have the lowest loss"
    rows = torch.arange(count, device=x.device) * starts + chosen
    raw = _raw(have["hyperparameters"])
    wrong = torch.cat([(raw[n] - after[n][rows]).reshape(count, -1) for n in NAMES], 1).norm(dim=1)
    moved = torch.cat([(after[n] - before[n])[rows].reshape(count, -1) for n in NAMES], 1).norm(dim=1)
    off = (wrong / moved).max().item()
    return None if off <= MOVED else f"hyperparameters are off by {off:.3g} of how far they moved"


def _moments(mean, variance, want_mean, want_variance, what):
    off = ((mean - want_mean).abs() / want_variance.sqrt()).max().item()
    if not off <= MEAN:
        return f"{what}: means are off by {off:.3g} standard deviations"
    off = (variance / want_variance - 1).abs().max().item()
    return None if off <= VARIANCE else f"{what}: variances are off by {off:.3g} of themselves"


def _check_maps(have, x, y, grid, shift, scale, limits):
    for n in range(len(x)):
        p = {name: value[n] for name, value in have["hyperparameters"].items()}
        mean, variance = _predict(x[n], y[n], grid, p)
        mean, variance = mean * scale[n] + shift[n], variance * scale[n] ** 2
        problem = _moments(have["mean"][n], have["variance"][n], mean, variance, f"map {n}")
        if problem:
            return problem
        above = 0.5 * torch.erfc((limits[n] - mean) / (2 * variance).sqrt())
        off = (above - have["exceedance"][n]).abs().max().item()
        if not off <= SHARE:
            return f"exceedances of map {n} are off by {off:.3g}"
    return None


def _check_held_out(case, have, x, y, logs, shift, scale):
    reach = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    for n, field in enumerate(case["fields"]):
        p = {name: value[n] for name, value in have["hyperparameters"].items()}
        mean, variance = torch.empty_like(y[n]), torch.empty_like(y[n])
        regions = torch.as_tensor(field["regions"], device=x.device)
        for region in np.unique(field["regions"]).tolist():
            out = regions == region
            mean[out], variance[out] = _predict(x[n][~out], y[n][~out], x[n][out], p)
        mean, variance = mean * scale[n] + shift[n], variance * scale[n] ** 2
        problem = _moments(have["held_out_mean"][n], have["held_out_variance"][n], mean, variance, f"held out of {n}")
        if problem:
            return problem
        spread, error = variance.sqrt(), logs[n] - mean
        z = error / spread
        density = torch.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        want = {
            "rmse": (error**2).mean().sqrt(),
            "nlpd": (0.5 * (2 * math.pi * variance).log() + 0.5 * z**2).mean(),
            "coverage": (z.abs() <= reach).double().mean(),
            "crps": (spread * (z * torch.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))).mean(),
        }
        for name, value in want.items():
            slack = 2.5 / len(z) if name == "coverage" else SCORE
            if not abs(have["scores"][name][n].item() - value.item()) <= slack:
                return f"{name} of field {n} is {value.item():.5g}"
    return None


def _check_sensors(have, x, places):
    """Follow the choices that were made, with the covariance of all candidates."""
    p = have["hyperparameters"]
    covariances, totals = [], p["outputscale"] + p["trend_scale"]
    for n in range(len(x)):
        own = {name: value[n] for name, value in p.items()}
        eye = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        factor = torch.linalg.cholesky(_covariance(x[n], x[n], own) + own["noise"] * eye)
        half = torch.linalg.solve_triangular(factor, _covariance(x[n], places, own), upper=False)
        covariances.append(_covariance(places, places, own) - half.T @ half)
    covariance = torch.stack(covariances)
    numbers = have["sensors"].long().tolist()
    if len(set(numbers)) != len(numbers) or min(numbers) < 0 or max(numbers) >= len(places):
        return "sensors are named twice or do not exist"
    for row, number in enumerate(numbers):
        score = (covariance.diagonal(dim1=1, dim2=2) / totals[:, None]).sum(0)
        score[numbers[:row]] = -math.inf
        own, told = score[number].item(), have["sensor_scores"][row].item()
        if own < score.max().item() * (1 - SENSOR):
            return f"sensor {row} has {own:.5g}, where {score.max().item():.5g} is possible"
        if not abs(told - own) <= SENSOR * own:
            return f"the score of sensor {row} is {own:.5g}, not {told:.5g}"
        column = covariance[:, :, number]
        size = column[:, number] + p["noise"]
        covariance = covariance - column[:, :, None] * (column / size[:, None])[:, None]
    remains = covariance.diagonal(dim1=1, dim2=2).mean(1) / totals
    off = (have["remaining"] / remains - 1).abs().max().item()
    return None if off <= SENSOR else f"what remains unknown is off by {off:.3g} of itself"
