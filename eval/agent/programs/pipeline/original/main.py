"""Filter all chunks, each on one of several streams."""

import torch
from stages import matched, noise_level, peaks, upload
from streams import Streams

STREAMS = 4


@torch.no_grad()
def run(case, device):
    """``values`` and ``places``, (chunks, templates, channels), and ``noise``, (chunks, channels)."""
    streams, results, noise = Streams(STREAMS, device), [], []
    templates = [template.to(device) for template in case["templates"]]
    for number, chunk in enumerate(case["chunks"]):
        with streams.of(number):
            on_device = upload(chunk, device)
            results.append([peaks(matched(on_device, template)) for template in templates])
            noise.append(noise_level(on_device))
    streams.wait()
    values, places = (torch.stack([torch.stack([pair[i] for pair in row]) for row in results]) for i in (0, 1))
    return {"values": values.cpu(), "places": places.cpu(), "noise": torch.tensor(noise)}
