"""Hidden tests: the same training with a plain transformer in FP32, attention written out, and AdamW step by step."""

import math

import numpy as np
import torch
import torch.nn.functional as F

LOSS_SLACK, PART_SLACK = 0.05, 0.08
"""Of the loss and the error of an evaluation, and of its parts, relative; training in BF16 changes them by 2 %."""
STEP_LOSS_SLACK, STEP_LOSS_MEAN_SLACK = 0.15, 0.03
"""Of the losses of steps, relative: of each, and on average; in BF16, single steps differ by 4 %."""
NORM_SLACK, NORM_MEAN_SLACK = 0.5, 0.1
"""Of norms of gradients, relative: of each, and on average; in BF16, single steps differ by a fifth."""
SHARE_SLACK = 0.03
CHANGE_SLACK = 0.25
"""Distance of weights from the right ones, relative to how far those moved."""
RATE, WARMUP, DECAY, BETAS, CLIP, LEAST, SMOOTH = 4e-4, 4, 0.01, (0.9, 0.98), 1.0, 1e-3, 24


def make(seed, small):
    """Loads of many places with daily and weekly shape, weather and gaps; places of windows; starting weights."""
    chosen = np.random.default_rng(seed)
    count, hours, context, horizon = (5, 900, 72, 24) if small else (64, 6000, 336, 48)
    width, heads, layers = (32, 4, 2) if small else (512, 8, 4)
    batch, steps, windows = (8, 6, 70) if small else (128, 30, 1024)
    first = int(chosen.integers(0, 168))
    t = first + np.arange(hours)
    weather = np.convolve(chosen.normal(size=hours + 47), np.ones(48) / 7, mode="valid") + 0.6 * np.sin(t / 24 * 6.2832)
    loads = np.empty((count, hours))
    for n in range(count):
        daily = np.sin(2 * np.pi * t / 24 + chosen.uniform(0, 6.28)) + 0.4 * np.sin(
            4 * np.pi * t / 24 + chosen.uniform(0, 6)
        )
        weekly = np.where(t % 168 >= 120, chosen.uniform(0.4, 1.0), 1.0)
        noise = chosen.normal(size=hours)
        for at in range(1, hours):
            noise[at] = 0.7 * noise[at - 1] + 0.4 * noise[at]
        size, answer = math.exp(chosen.normal(2, 1)), chosen.normal(0, 0.4)
        loads[n] = size * (3 + daily * weekly + answer * weather + noise)
        for _ in range(hours // 200):
            at = chosen.integers(0, hours)
            loads[n, at : at + chosen.integers(1, 12)] = np.nan
    channels, quantiles = 8, [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]
    shapes = {
        "entry.weight": (width, channels), "entry.bias": (width,), "identity.weight": (count, width),
        "position": (context + horizon, width), "norm.weight": (width,), "norm.bias": (width,),
        "head.weight": (len(quantiles), width), "head.bias": (len(quantiles),),
    }  # fmt: skip
    for n in range(layers):
        shapes |= {
            f"layers.{n}.before.weight": (width,), f"layers.{n}.before.bias": (width,),
            f"layers.{n}.attention.in_proj_weight": (3 * width, width),
            f"layers.{n}.attention.in_proj_bias": (3 * width,),
            f"layers.{n}.attention.out_proj.weight": (width, width), f"layers.{n}.attention.out_proj.bias": (width,),
            f"layers.{n}.between.weight": (width,), f"layers.{n}.between.bias": (width,),
            f"layers.{n}.into.weight": (4 * width, width), f"layers.{n}.into.bias": (4 * width,),
            f"layers.{n}.out.weight": (width, 2 * width), f"layers.{n}.out.bias": (width,),
        }  # fmt: skip
    generator, parameters = torch.Generator().manual_seed(seed), {}
    for name, shape in shapes.items():
        value = torch.randn(shape, generator=generator)
        if len(shape) > 1:
            parameters[name] = value * (0.1 if name in ("identity.weight", "position") else 0.7 / shape[1] ** 0.5)
        else:
            norm = name.endswith(("norm.weight", "before.weight", "between.weight"))
            parameters[name] = 0.02 * value + (1.0 if norm else 0.0)

    def places(size):
        starts = chosen.integers(0, hours - context - horizon + 1, size)
        return np.stack([chosen.integers(0, count, size), starts], axis=-1)

    return {
        "loads": loads, "temperature": weather, "first_hour": first, "context": context, "horizon": horizon,
        "channels": channels, "quantiles": quantiles,
        "model": {"width": width, "heads": heads, "layers": layers}, "parameters": parameters,
        "batches": places((steps, batch)), "evaluation": places(windows),
    }  # fmt: skip


def _windows(case, places, device):
    """Inputs, targets, what was measured, centres and spreads, computed in FP64."""
    places = torch.as_tensor(places)
    context, length = case["context"], case["context"] + case["horizon"]
    at = places[:, 1:] + torch.arange(length)
    load = torch.from_numpy(case["loads"])[places[:, :1], at]
    history = load[:, :context]
    lower, centre, upper = torch.nanquantile(history, torch.tensor([0.25, 0.5, 0.75]).double(), dim=1)
    spread = (upper - lower).clamp(min=LEAST)
    scaled = (load - centre[:, None]) / spread[:, None]
    measured = ~scaled.isnan()
    filled, last = torch.zeros(len(places), length).double(), torch.zeros(len(places)).double()
    for hour in range(context):
        last = torch.where(measured[:, hour], scaled[:, hour], last)
        filled[:, hour] = last
    smooth = torch.zeros_like(filled)
    for hour in range(context):
        smooth[:, hour] = filled[:, max(0, hour - SMOOTH + 1) : hour + 1].mean(1)
    smooth[:, context:] = smooth[:, context - 1 : context]
    known = torch.where(torch.arange(length) < context, measured, False)
    channels = [filled, known.double(), smooth]
    clock = case["first_hour"] + at
    for period in (24, 168):
        angle = 2 * math.pi * (clock % period).double() / period
        channels += [angle.sin(), angle.cos()]
    channels.append(torch.from_numpy(case["temperature"])[at])
    target, seen = scaled[:, context:].nan_to_num(), measured[:, context:]
    return [
        x.to(device) for x in (places[:, 0], torch.stack(channels, -1).float(), target.float(), seen, centre, spread)
    ]


def _forecast(case, w, series, inputs):
    heads, length = case["model"]["heads"], inputs.shape[1]
    hidden = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)
    x = F.linear(inputs, w["entry.weight"], w["entry.bias"]) + F.embedding(series, w["identity.weight"])[:, None]
    x = x + w["position"]
    for n in range(case["model"]["layers"]):
        own = {name.split(".", 2)[2]: value for name, value in w.items() if name.startswith(f"layers.{n}.")}
        y = F.layer_norm(x, x.shape[-1:], own["before.weight"], own["before.bias"])
        parts = F.linear(y, own["attention.in_proj_weight"], own["attention.in_proj_bias"]).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(hidden, -math.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + F.linear(mixed, own["attention.out_proj.weight"], own["attention.out_proj.bias"])
        y = F.layer_norm(x, x.shape[-1:], own["between.weight"], own["between.bias"])
        value, gate = F.linear(y, own["into.weight"], own["into.bias"]).chunk(2, -1)
        x = x + F.linear(value * torch.sigmoid(gate), own["out.weight"], own["out.bias"])
    x = F.layer_norm(x[:, -case["horizon"] :], x.shape[-1:], w["norm.weight"], w["norm.bias"])
    return F.linear(x, w["head.weight"], w["head.bias"])


def _pinball(case, forecast, target):
    levels = torch.tensor(case["quantiles"], device=target.device)
    error = target[..., None] - forecast
    return torch.where(error > 0, levels * error, (levels - 1) * error)


def _evaluate(case, w, device):
    losses, below, count = 0, 0, 0
    error, size = (torch.zeros(len(case["loads"]), dtype=torch.float64, device=device) for _ in range(2))
    square = 0.0
    for n in range(0, len(case["evaluation"]), 64):
        series, inputs, target, seen, centre, spread = _windows(case, case["evaluation"][n : n + 64], device)
        forecast = _forecast(case, w, series, inputs)
        losses = losses + (_pinball(case, forecast, target) * seen[..., None]).double().sum((0, 1))
        below = below + ((target[..., None] <= forecast) & seen[..., None]).double().sum((0, 1))
        count += seen.sum().item()
        middle = forecast[..., forecast.shape[-1] // 2].double()
        off = torch.where(seen, (middle - target) * spread[:, None], 0.0)
        real = torch.where(seen, target * spread[:, None] + centre[:, None], 0.0)
        error.index_add_(0, series, off.abs().sum(1))
        size.index_add_(0, series, real.abs().sum(1))
        square += (off**2).sum().item()
    names = [f"{q:g}" for q in case["quantiles"]]
    return {
        "by_quantile": dict(zip(names, (losses / count).tolist(), strict=True)),
        "coverage": dict(zip(names, (below / count).tolist(), strict=True)),
        "loss": (losses / count).mean().item(), "rmse": (square / count) ** 0.5,
        "by_series": {n: (error[n] / size[n]).item() for n in range(len(error)) if size[n] > 0},
    }  # fmt: skip


def _train(case, device):
    w = {name: value.to(device, copy=True).requires_grad_() for name, value in case["parameters"].items()}
    first = {name: torch.zeros_like(value) for name, value in w.items()}
    second = {name: torch.zeros_like(value) for name, value in w.items()}
    losses, norms, evaluations = [], [], []
    steps = len(case["batches"])
    for step, places in enumerate(case["batches"]):
        series, inputs, target, seen, _, _ = _windows(case, places, device)
        loss = (_pinball(case, _forecast(case, w, series, inputs), target) * seen[..., None]).sum()
        loss = loss / (seen.sum() * len(case["quantiles"]))
        gradients = dict(zip(w, torch.autograd.grad(loss, list(w.values())), strict=True))
        losses.append(loss.item())
        with torch.no_grad():
            norms.append(torch.stack([g.norm() for g in gradients.values()]).norm().item())
            rate = RATE * min(1.0, (step + 1) / WARMUP)
            for name, value in w.items():
                grad = gradients[name] * min(1.0, CLIP / (norms[-1] + 1e-6))
                first[name].mul_(BETAS[0]).add_(grad, alpha=1 - BETAS[0])
                second[name].mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
                size = (second[name] / (1 - BETAS[1] ** (step + 1))).sqrt() + 1e-8
                value.mul_(1 - rate * DECAY).sub_(rate * first[name] / (1 - BETAS[0] ** (step + 1)) / size)
            if step + 1 in (steps // 2, steps):
                evaluations.append(_evaluate(case, w, device))
    return losses, norms, evaluations, w


def _off(have, want, slack, what):
    """What is wrong with numbers by name, or None."""
    if set(have) != set(want):
        return f"{what} are for {sorted(have)[:5]} ..., not {sorted(want)[:5]} ..."
    for name, value in want.items():
        if not abs(float(have[name]) - value) <= slack(value):
            return f"{what}: {name} is {float(have[name]):.5g}, not {value:.5g}"
    return None


def _off_steps(have, want, slacks, what):
    """What is wrong with numbers by step, of each and on average, or None."""
    each, average = slacks
    problem = _off(dict(enumerate(have)), dict(enumerate(want)), lambda v: each * abs(v), what)
    off = 0.0 if problem else np.mean([abs(float(x) / y - 1) for x, y in zip(have, want, strict=True)])
    return problem or (None if off <= average else f"{what} are off by {off:.2g} on average")


def _compare(case, result, device):
    losses, norms, evaluations, w = _train(case, device)

    def relative(value):
        return LOSS_SLACK * abs(value)

    steps = len(losses)
    problem = _off_steps(result["losses"], losses, (STEP_LOSS_SLACK, STEP_LOSS_MEAN_SLACK), "losses")
    problem = problem or _off_steps(
        result["gradient_norms"], norms, (NORM_SLACK, NORM_MEAN_SLACK), "norms of gradients"
    )
    if problem:
        return problem
    if len(result["evaluations"]) != 2:
        return f"there are {len(result['evaluations'])} evaluations, not 2"
    for have, want in zip(result["evaluations"], evaluations, strict=True):
        problem = _off(
            {n: have[n] for n in ("loss", "rmse")}, {n: want[n] for n in ("loss", "rmse")}, relative, "means"
        )
        problem = problem or _off(
            have["by_quantile"], want["by_quantile"], lambda v: PART_SLACK * v, "losses by quantile"
        )
        problem = problem or _off(have["coverage"], want["coverage"], lambda v: SHARE_SLACK, "coverage")
        problem = problem or _off(have["by_series"], want["by_series"], lambda v: PART_SLACK * v, "errors by series")
        if problem:
            return problem
    one, two = (evaluation["loss"] for evaluation in evaluations)
    best = steps // 2 if one < two else steps
    if abs(one - two) > 2 * LOSS_SLACK * one and result["best_step"] != best:
        return f"the best step is {result['best_step']}, not {best}"
    if set(result["parameters"]) != set(w):
        return "the weights have other names"
    for name, value in w.items():
        moved = value - case["parameters"][name].to(device)
        off = result["parameters"][name].to(device).float() - value
        if name.endswith("in_proj_bias"):  # attention does not depend on the bias of the keys, so its gradient is noise
            queries, _, values = off.chunk(3)
            off = torch.cat([queries, values])
        moved, off = moved.norm(), off.norm()
        if not off <= CHANGE_SLACK * moved + 1e-6:
            return f"{name} is off by {off / moved:.2g} of its change"
    return None


def check(case, result, device):
    """What is wrong with the losses, the norms, the evaluations or the weights, or None."""
    before = (
        torch.get_float32_matmul_precision(), torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()
    )  # fmt: skip
    torch.set_float32_matmul_precision("highest")
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)
    try:
        return _compare(case, result, device)
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.set_grad_enabled(before[1])
        torch.use_deterministic_algorithms(before[2])
