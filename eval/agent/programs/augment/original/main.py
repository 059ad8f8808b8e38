"""Augment all batches, image by image."""

import torch
from blur import blur
from colour import equalise, jitter, normalise
from geometry import crop


def augment(image, how, size):
    """One image, (3, H, W) on the device."""
    image = equalise(image)
    image = crop(image, how["angle"], how["centre"], how["scale"], size)
    image = jitter(image, how["contrast"], how["saturation"])
    return normalise(blur(image, how["blur"])).float()


@torch.no_grad()
def run(case, device):
    """``means`` and ``images``: the mean of every output image, and the last batch."""
    means, last = [], None
    for images, hows in zip(case["batches"], case["hows"], strict=True):
        on_device = images.float().permute(0, 3, 1, 2).contiguous().to(device)
        last = torch.stack([augment(one, how, case["size"]) for one, how in zip(on_device, hows, strict=True)])
        means.append(last.mean((1, 2, 3)).cpu())
    return {"means": torch.cat(means), "images": last}
