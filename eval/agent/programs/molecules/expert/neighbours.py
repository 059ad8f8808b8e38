"""Neighbours within a cutoff in periodic boxes, for many structures at once."""

import itertools

import torch

LARGEST = 24
"""Structures that are searched at once."""


def image_shifts(images, like):
    """Whole numbers of boxes by which the images of a box are moved."""
    span = range(-images, images + 1)
    return torch.tensor(list(itertools.product(span, span, span)), dtype=like.dtype, device=like.device)


def search(pos, mask, box, settings):
    """Structures, targets, sources and offsets of the pairs that are closer than the cutoff, by structure.

    Positions are (structure, atom, axis), padded where the mask is not set.
    """
    shifts = image_shifts(settings.images, pos)
    offsets = shifts * box[:, None]
    between = pos[:, None, :] - pos[:, :, None]
    square = (between[:, None] + offsets[:, :, None, None]).square().sum(-1)
    near = (square < settings.cutoff**2) & (mask[:, None, :, None] & mask[:, None, None, :])
    near[:, len(shifts) // 2].diagonal(dim1=-2, dim2=-1).fill_(False)
    number, image, target, source = near.nonzero(as_tuple=True)
    return number, target, source, offsets[number, image]


def by_structure(pos, mask, box, settings):
    """Targets, sources and offsets of every structure as lists."""
    lists = []
    for at in range(0, len(pos), LARGEST):
        part = slice(at, at + LARGEST)
        number, *edges = search(pos[part], mask[part], box[part], settings)
        counts = torch.bincount(number, minlength=len(pos[part])).tolist()
        lists += zip(*(edge.split(counts) for edge in edges), strict=True)
    return lists
