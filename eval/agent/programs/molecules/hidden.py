"""Hidden tests: the same training, evaluation and relaxation in FP64, with plain sums over neighbours."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F

LOSS_SLACK = 0.02
CHANGE_SLACK = 0.1
"""Distance of weights from the right ones, relative to how far those moved."""
FORCE_SLACK = 0.03
PLACE_SLACK = 0.05
"""Distance of relaxed atoms from the right places, relative to how far those moved."""
CUTOFF, WIDTH, WEIGHT, RATE, BETAS, STEP, LONGEST = 5.0, 1.5, 10.0, 2e-3, (0.9, 0.99), 0.02, 0.05


def _edges(positions, box):
    """Targets, sources and offsets in space of the pairs within the cutoff."""
    shifts = torch.tensor(list(itertools.product((-1, 0, 1), repeat=3)), dtype=positions.dtype, device=positions.device)
    moved = (shifts * box)[:, None, None] + positions[None, None] - positions[None, :, None]
    square = (moved**2).sum(-1)
    square[len(shifts) // 2].fill_diagonal_(math.inf)
    image, target, source = (square < CUTOFF**2).nonzero(as_tuple=True)
    return target, source, shifts[image] * box


def make(seed, small):
    """Mixtures in periodic boxes, energies and forces of a pair potential for them, starting weights."""
    chosen, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    kinds, width, basis, layers = (3, 16, 8, 2) if small else (8, 128, 32, 3)
    batch, steps = (3, 6) if small else (24, 20)
    counts = (8, 5, 2) if small else (120, 48, 6)
    radius = torch.from_numpy(chosen.uniform(1.8, 2.6, kinds))
    depth = torch.from_numpy(chosen.uniform(0.05, 0.3, kinds))

    def structure(labelled):
        grid = chosen.integers(3, 4, 3) if small else chosen.integers(4, 6, 3)
        box = grid * chosen.uniform(2.1, 2.4, 3)
        places = np.array(list(itertools.product(*(range(n) for n in grid)))) / grid
        positions = (places * box + chosen.normal(0, 0.18, places.shape)) % box
        made = {"positions": positions, "kinds": chosen.integers(0, kinds, len(positions)), "box": box}
        if labelled:
            x = torch.from_numpy(positions).requires_grad_()
            target, source, offset = _edges(x.detach(), torch.from_numpy(box))
            of = torch.from_numpy(made["kinds"])
            distance = (x[source] + offset - x[target]).norm(dim=-1)
            best = (radius[of[source]] + radius[of[target]]) / 2
            deep = (depth[of[source]] * depth[of[target]]).sqrt()
            rise = torch.exp(-1.3 * (distance - best))
            fade = 0.5 * (torch.cos(math.pi * distance / CUTOFF) + 1)
            energy = (0.5 * deep * (rise**2 - 2 * rise) * fade).sum()
            made["energy"] = energy.item()
            made["forces"] = -torch.autograd.grad(energy, x)[0].numpy()
        return made

    shapes = {
        "embedding.weight": (kinds, width), "readout.into.weight": (width // 2, width),
        "readout.into.bias": (width // 2,), "readout.out.weight": (1, width // 2), "readout.out.bias": (1,),
    }  # fmt: skip
    for n in range(layers):
        shapes |= {
            f"blocks.{n}.pair": (kinds, kinds, width),
            f"blocks.{n}.mix.weight": (width, 2 * width + basis), f"blocks.{n}.mix.bias": (width,),
            f"blocks.{n}.out.weight": (width, width), f"blocks.{n}.out.bias": (width,),
            f"blocks.{n}.change.weight": (width, width), f"blocks.{n}.change.bias": (width,),
        }  # fmt: skip
    parameters = {}
    for name, shape in shapes.items():
        value = torch.randn(shape, generator=generator)
        if name.endswith("pair"):
            parameters[name] = 1 + 0.3 * value
        elif len(shape) == 2:
            scale = 1.0 if name.startswith("embedding") else (0.2 if ".out." in name else 1.0) / shape[1] ** 0.5
            parameters[name] = value * scale
        else:
            parameters[name] = 0.02 * value
    return {
        "model": {"width": width, "basis": basis, "layers": layers, "kinds": kinds}, "parameters": parameters,
        "training": [structure(True) for _ in range(counts[0])],
        "evaluation": [structure(True) for _ in range(counts[1])],
        "relaxation": [structure(False) for _ in range(counts[2])],
        "batches": np.stack([chosen.permutation(counts[0])[:batch] for _ in range(steps)]),
        "relaxation_steps": 8 if small else 40,
    }  # fmt: skip


def _joined(structures, device):
    """Positions, kinds, number of the structure, and edges of all structures."""
    positions = [torch.from_numpy(one["positions"]).to(device) for one in structures]
    boxes = [torch.from_numpy(one["box"]).to(device) for one in structures]
    edges = [_edges(x, box) for x, box in zip(positions, boxes, strict=True)]
    starts = np.cumsum([0, *(len(x) for x in positions)])
    return (
        torch.cat(positions), torch.cat([torch.from_numpy(one["kinds"]) for one in structures]).to(device),
        torch.cat([torch.full((len(x),), n, device=device) for n, x in enumerate(positions)]),
        torch.cat([edge[0] + int(start) for edge, start in zip(edges, starts[:-1], strict=True)]),
        torch.cat([edge[1] + int(start) for edge, start in zip(edges, starts[:-1], strict=True)]),
        torch.cat([edge[2] for edge in edges]),
    )  # fmt: skip


def _potential(case, w, joined, train=False):
    """Energies by structure and forces."""
    positions, kinds, number, target, source, offset = joined
    x = positions.detach().requires_grad_()
    distance = (x.index_select(0, source) + offset - x.index_select(0, target)).norm(dim=-1)
    basis = case["model"]["basis"]
    spacing = CUTOFF / (basis - 1)
    centres = torch.arange(basis, device=x.device) * spacing
    radial = torch.exp(-0.5 * ((distance[:, None] - centres) / (WIDTH * spacing)) ** 2)
    fade = (0.5 * (torch.cos(math.pi * distance / CUTOFF) + 1))[:, None]
    pairs = F.one_hot(kinds[target] * case["model"]["kinds"] + kinds[source], case["model"]["kinds"] ** 2).double()
    h = F.one_hot(kinds, case["model"]["kinds"]).double() @ w["embedding.weight"]
    for n in range(case["model"]["layers"]):
        at = f"blocks.{n}."
        ends = [h.index_select(0, target), h.index_select(0, source), radial]
        mixed = F.silu(F.linear(torch.cat(ends, -1), w[at + "mix.weight"], w[at + "mix.bias"]))
        mixed = mixed * (pairs @ w[at + "pair"].flatten(0, 1))
        messages = F.linear(mixed, w[at + "out.weight"], w[at + "out.bias"]) * fade
        total = torch.zeros_like(h).index_add(0, target, messages)
        h = h + F.silu(F.linear(total, w[at + "change.weight"], w[at + "change.bias"]))
    h = F.silu(F.linear(h, w["readout.into.weight"], w["readout.into.bias"]))
    each = F.linear(h, w["readout.out.weight"], w["readout.out.bias"])[:, 0]
    energy = torch.zeros(int(number[-1]) + 1, dtype=each.dtype, device=x.device).index_add(0, number, each)
    force = -torch.autograd.grad(energy.sum(), x, create_graph=train)[0]
    return energy, force


def _labels(structures, device):
    energy = torch.tensor([one["energy"] for one in structures], dtype=torch.float64, device=device)
    return energy, torch.cat([torch.from_numpy(one["forces"]) for one in structures]).to(device)


def _train(case, device):
    w = {name: value.to(device).double().requires_grad_() for name, value in case["parameters"].items()}
    first = {name: torch.zeros_like(value) for name, value in w.items()}
    second = {name: torch.zeros_like(value) for name, value in w.items()}
    losses = []
    for step, batch in enumerate(case["batches"], 1):
        structures = [case["training"][n] for n in batch]
        joined, (energies, forces) = _joined(structures, device), _labels(structures, device)
        energy, force = _potential(case, w, joined, train=True)
        atoms = torch.tensor([len(one["kinds"]) for one in structures], device=device)
        loss = (((energy - energies) / atoms) ** 2).mean() + WEIGHT * ((force - forces) ** 2).mean()
        gradients = torch.autograd.grad(loss, list(w.values()), allow_unused=True)
        losses.append(loss.item())
        with torch.no_grad():
            for (name, value), grad in zip(w.items(), gradients, strict=True):
                first[name].mul_(BETAS[0]).add_(grad, alpha=1 - BETAS[0])
                second[name].mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
                size = (second[name] / (1 - BETAS[1] ** step)).sqrt() + 1e-8
                value.sub_(RATE * first[name] / (1 - BETAS[0] ** step) / size)
    return losses, {name: value.detach() for name, value in w.items()}


def _evaluate(case, w, device):
    kinds = case["model"]["kinds"]
    off, error, count = 0.0, torch.zeros(kinds).double().to(device), torch.zeros(kinds).double().to(device)
    for n in range(0, len(case["evaluation"]), 8):
        structures = case["evaluation"][n : n + 8]
        joined, (energies, forces) = _joined(structures, device), _labels(structures, device)
        energy, force = _potential(case, w, joined)
        atoms = torch.tensor([len(one["kinds"]) for one in structures], device=device)
        off += ((energy - energies).abs() / atoms).sum().item()
        error.index_add_(0, joined[1], (force - forces).abs().mean(1))
        count.index_add_(0, joined[1], torch.ones_like(force[:, 0]))
    by_kind = (error / count.clamp(min=1)).tolist()
    return off / len(case["evaluation"]), (error.sum() / count.sum()).item(), by_kind


def _relax(case, w, structure, device):
    """Energies and largest forces by step, positions at the end, and how far the atoms moved."""
    positions, box = torch.from_numpy(structure["positions"]).to(device), torch.from_numpy(structure["box"]).to(device)
    energies, largest, moved = [], [], torch.zeros_like(positions)
    for _ in range(case["relaxation_steps"]):
        joined = _joined([structure | {"positions": positions.cpu().numpy()}], device)
        energy, force = _potential(case, w, joined)
        energies.append(energy.item())
        largest.append(force.norm(dim=1).max().item())
        step = STEP * force
        step = step * (LONGEST / step.norm(dim=1, keepdim=True).clamp(min=1e-12)).clamp(max=1)
        positions, moved = (positions + step) % box, moved + step
    return energies, largest, positions, moved


def _numbers(have, want, slack, what):
    """What is wrong with a list of numbers, or None."""
    if len(have) != len(want):
        return f"{what}: there are {len(have)}, not {len(want)}"
    for number, (a, b) in enumerate(zip(have, want, strict=True)):
        if not abs(float(a) - b) <= slack(b):
            return f"{what}: number {number} is {float(a):.6g}, not {b:.6g}"
    return None


def _compare(case, result, device):
    losses, w = _train(case, device)
    problem = _numbers(result["losses"], losses, lambda v: LOSS_SLACK * v, "losses")
    if problem:
        return problem
    if set(result["parameters"]) != set(w):
        return "the weights have other names"
    for name, value in w.items():
        moved = (value - case["parameters"][name].to(device)).norm()
        off = (result["parameters"][name].to(device).double() - value).norm()
        if not off <= CHANGE_SLACK * moved + 1e-6:
            return f"{name} is off by {off / moved:.2g} of its change"
    energy, force, by_kind = _evaluate(case, w, device)
    have = result["errors"]
    pairs = zip([have["energy"], have["force"], *have["force_by_kind"]], [energy, force, *by_kind], strict=True)
    one, two = zip(*pairs, strict=True)
    problem = _numbers(one, two, lambda v: LOSS_SLACK * abs(v) + 1e-4, "errors")
    if problem:
        return problem
    if any(len(result[n]) != len(case["relaxation"]) for n in ("energies", "largest_forces", "positions")):
        return "not every structure was relaxed"
    for number, structure in enumerate(case["relaxation"]):
        energies, largest, positions, moved = _relax(case, w, structure, device)
        scale = max(energies[0] - energies[-1], 1e-3 * len(positions))
        problem = _numbers(
            result["energies"][number], energies, lambda v, s=scale: FORCE_SLACK * s + 2e-3 * abs(v), "energies"
        ) or _numbers(result["largest_forces"][number], largest, lambda v: FORCE_SLACK * v + 1e-3, "largest forces")
        if problem:
            return f"relaxation {number}: {problem}"
        box = torch.from_numpy(structure["box"]).to(device)
        off = torch.as_tensor(result["positions"][number]).to(device).double() - positions
        off = off - box * (off / box).round()
        if off.shape != moved.shape or not off.norm() <= PLACE_SLACK * moved.norm() + 1e-4:
            return f"relaxation {number}: atoms are off by {off.norm() / moved.norm():.2g} of their way"
    return None


def check(case, result, device):
    """What is wrong with the losses, the weights, the errors or the relaxations, or None."""
    before = torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)
    try:
        return _compare(case, result, device)
    finally:
        torch.set_grad_enabled(before[0])
        torch.use_deterministic_algorithms(before[1])
