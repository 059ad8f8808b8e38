"""Neighbours within a cutoff in periodic boxes, as a transform of torch_geometric."""

import itertools

import numpy as np
import torch
from torch_geometric.transforms import BaseTransform


def image_shifts(images):
    """Whole numbers of boxes by which the images of a box are moved."""
    span = range(-images, images + 1)
    return np.array(list(itertools.product(span, span, span)), dtype=np.float64)


def search(positions, cell, cutoff, images):
    """Sources, targets and shifts of the pairs that are closer than the cutoff."""
    sources, targets, shifts = [], [], []
    for shift in image_shifts(images):
        offset = positions[None, :, :] + shift @ cell - positions[:, None, :]
        distance = np.linalg.norm(offset, axis=-1)
        if not shift.any():
            np.fill_diagonal(distance, np.inf)
        target, source = np.nonzero(distance < cutoff)
        sources.append(source)
        targets.append(target)
        shifts.append(np.repeat(shift[None], len(source), axis=0))
    return np.concatenate(sources), np.concatenate(targets), np.concatenate(shifts)


class PeriodicRadius(BaseTransform):
    """Adds the edges of a structure, whose positions lie in its box."""

    def __init__(self, cutoff, images=1):
        self.cutoff, self.images = cutoff, images

    def forward(self, data):
        source, target, shift = search(data.pos.cpu().numpy(), data.cell[0].cpu().numpy(), self.cutoff, self.images)
        data.edge_index = torch.from_numpy(np.stack([source, target]))
        data.shift = torch.from_numpy(shift)
        return data
