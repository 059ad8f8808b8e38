"""Delta-coded sequences of events: all samples are decoded at once."""

import numpy as np
import torch


def decoded(case, device):
    """The events of all samples, (samples, length), on the device."""
    blobs, length = case["blobs"], case["length"]
    raw = np.frombuffer(b"".join(blobs), dtype=np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    begins = np.concatenate([[0], ends[:-1] + 1])
    places = np.arange(len(raw)) - np.repeat(begins, ends - begins + 1)
    coded = np.add.reduceat((raw & 0x7F).astype(np.int64) << (7 * places), begins)
    differences = (coded >> 1) ^ -(coded & 1)
    # A sample may store more events than are used; sums restart with each sample.
    sizes = np.fromiter(map(len, blobs), dtype=np.int64)
    first = np.searchsorted(ends, np.cumsum(sizes) - sizes)
    sums = np.cumsum(differences)
    before = sums[first] - differences[first]
    events = (sums[first[:, None] + np.arange(length)] - before[:, None]) % case["vocabulary"]
    return torch.from_numpy(events).to(device)
