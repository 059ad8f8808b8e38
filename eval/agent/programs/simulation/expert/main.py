"""Integrate the particles; lists of pairs within cutoff and skin are built on the device, and only when needed."""

import torch

KEPT_EVERY, CHECKED_EVERY = 10, 5
SKIN = 0.4


def _pairs(positions, box, reach):
    """Both ends of every pair within ``reach``, each pair in both orders."""
    side = max(3, int(box // reach))
    place = (positions / box * side).floor().long() % side
    cells = (place[:, 0] * side + place[:, 1]) * side + place[:, 2]
    order = torch.argsort(cells)
    begins = torch.searchsorted(cells[order], torch.arange(side**3 + 1, device=positions.device))
    steps = torch.tensor([-1, 0, 1], device=positions.device)
    shifts = torch.cartesian_prod(steps, steps, steps)
    near = (place[:, None] + shifts) % side
    near = (near[..., 0] * side + near[..., 1]) * side + near[..., 2]
    firsts, counts = begins[near].flatten(), (begins[near + 1] - begins[near]).flatten()
    rows = torch.arange(len(positions), device=positions.device).repeat_interleave(27)
    rows = rows.repeat_interleave(counts)
    offsets = torch.arange(len(rows), device=positions.device) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    others = order[firsts.repeat_interleave(counts) + offsets]
    apart = positions[rows] - positions[others]
    apart -= box * torch.round(apart / box)
    close = (rows != others) & ((apart**2).sum(-1) < reach**2)
    return rows[close], others[close]


def _forces(positions, pairs, box, cutoff, *, with_energy):
    rows, others = pairs
    apart = positions[rows] - positions[others]
    apart = apart - box * torch.round(apart / box)
    squared = (apart**2).sum(-1)
    inside = squared < cutoff**2
    sixth = torch.where(inside, squared, 1.0) ** -3
    strength = torch.where(inside, 24 * (2 * sixth**2 - sixth) / squared, 0.0)
    result = torch.zeros_like(positions).index_add_(0, rows, strength[:, None] * apart)
    if not with_energy:
        return result, None
    shift = cutoff**-6
    energy = torch.where(inside, 4 * (sixth**2 - sixth) - 4 * (shift**2 - shift), 0.0)
    return result, 0.5 * energy.sum(dtype=torch.float64)


@torch.no_grad()
def run(case, device):
    """``positions`` and ``velocities`` at the end, and the ``energies`` of every tenth step."""
    box, cutoff, dt = case["box"], case["cutoff"], case["dt"]
    positions, velocities = (case[name].to(device).float() for name in ("positions", "velocities"))
    pairs, since = _pairs(positions, box, cutoff + SKIN), positions.clone()
    force, _ = _forces(positions, pairs, box, cutoff, with_energy=False)
    energies = []
    for number in range(case["steps"]):
        velocities = velocities + 0.5 * dt * force
        positions = (positions + dt * velocities) % box
        if number % CHECKED_EVERY == 0:
            moved = positions - since
            moved = moved - box * torch.round(moved / box)
            # Nobody may cross half of the skin before the next look.
            reach = (moved**2).sum(-1).max().sqrt() + CHECKED_EVERY * dt * (velocities**2).sum(-1).max().sqrt()
            if bool(reach > 0.5 * SKIN):
                pairs, since = _pairs(positions, box, cutoff + SKIN), positions.clone()
        kept = number % KEPT_EVERY == 0
        force, energy = _forces(positions, pairs, box, cutoff, with_energy=kept)
        velocities = velocities + 0.5 * dt * force
        if kept:
            energies.append(energy + 0.5 * (velocities.double() ** 2).sum())
    return {"positions": positions, "velocities": velocities, "energies": torch.stack(energies)}
