"""Lennard-Jones forces and energies, truncated and shifted at the cutoff."""

import torch


def pair_terms(positions, table, box, cutoff):
    """Differences, squared distances and which pairs count, each (particles, most)."""
    lengths = torch.tensor([box] * 3, dtype=torch.float64, device=positions.device)
    others = positions[table.clamp(min=0)]
    apart = positions[:, None] - others
    apart = apart - lengths * torch.round(apart / lengths)
    squared = (apart**2).sum(-1)
    mine = torch.arange(len(positions), device=positions.device)[:, None]
    counts = (table >= 0) & (table != mine) & (squared < cutoff**2)
    return apart, torch.where(counts, squared, torch.ones_like(squared)), counts


def forces(positions, table, box, cutoff):
    """The force on every particle."""
    apart, squared, counts = pair_terms(positions, table, box, cutoff)
    sixth = 1 / squared**3
    strength = torch.where(counts, 24 * (2 * sixth**2 - sixth) / squared, torch.zeros_like(squared))
    return (strength[..., None] * apart).sum(1)


def potential(positions, table, box, cutoff):
    """The potential energy."""
    _, squared, counts = pair_terms(positions, table, box, cutoff)
    sixth, shift = 1 / squared**3, cutoff**-6
    energy = 4 * (sixth**2 - sixth) - 4 * (shift**2 - shift)
    return 0.5 * torch.where(counts, energy, torch.zeros_like(energy)).sum()
