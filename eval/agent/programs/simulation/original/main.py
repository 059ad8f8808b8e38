"""Integrate the particles."""

import torch
from forces import forces, potential
from neighbours import candidates

KEPT_EVERY = 10


class Simulation:
    """Positions, velocities and forces on the device."""

    def __init__(self, case, device):
        self.box, self.cutoff, self.dt, self.device = case["box"], case["cutoff"], case["dt"], device
        self.positions = case["positions"].to(device)
        self.velocities = case["velocities"].to(device)
        self.energies, self.messages = [], []
        self.table = self.lists()
        self.forces = forces(self.positions, self.table, self.box, self.cutoff)

    def lists(self):
        """The lists for the present positions."""
        table = candidates(self.positions.cpu().numpy(), self.box, self.cutoff)
        return torch.from_numpy(table).to(self.device)

    def step(self, number):
        """One step of velocity Verlet."""
        self.velocities = self.velocities + 0.5 * self.dt * self.forces
        self.positions = (self.positions + self.dt * self.velocities) % self.box
        self.table = self.lists()
        self.forces = forces(self.positions, self.table, self.box, self.cutoff)
        self.velocities = self.velocities + 0.5 * self.dt * self.forces
        kinetic = 0.5 * (self.velocities**2).sum()
        energy = kinetic + potential(self.positions, self.table, self.box, self.cutoff)
        temperature = 2 * kinetic.item() / (3 * len(self.positions))
        if number % KEPT_EVERY == 0:
            self.energies.append(energy)
            self.messages.append(f"step {number}: temperature {temperature:.3f}")


@torch.no_grad()
def run(case, device):
    """``positions`` and ``velocities`` at the end, and the ``energies`` of every tenth step."""
    simulation = Simulation(case, device)
    for number in range(case["steps"]):
        simulation.step(number)
    return {
        "positions": simulation.positions, "velocities": simulation.velocities,
        "energies": torch.stack(simulation.energies),
    }  # fmt: skip
