"""The loss of a run."""


class EnergyForceLoss:
    """Squares of the error of energies by atom and of forces."""

    def __init__(self, settings):
        self.weight = settings.force_weight

    def __call__(self, energy, force, dataset, rows):
        atoms = dataset.atoms[rows]
        of_energy = (((energy - dataset.energy[rows]) / atoms) ** 2).mean()
        of_force = ((force - dataset.force[rows]) ** 2).sum() / (3 * atoms.sum())
        return of_energy + self.weight * of_force
