"""Filter all chunks: pinned uploads ahead of the arithmetic, transforms of a smooth length, templates once."""

import torch


def _smooth(least):
    """The next length with no prime factor above 7."""
    while True:
        rest = least
        for prime in (2, 3, 5, 7):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return least
        least += 1


def _of_chunk(chunk, spectra, length, found):
    """Write the results of one chunk into the rows of ``found``."""
    values, places, noise = found
    samples = chunk.shape[-1]
    own = torch.fft.fft(chunk, n=length)
    for row, spectrum in enumerate(spectra):
        torch.max(torch.fft.ifft(own * spectrum)[..., :samples].abs(), dim=-1, out=(values[row], places[row]))
    noise.copy_(chunk.abs().median(dim=-1).values)


@torch.no_grad()
def run(case, device):
    """``values`` and ``places``, (chunks, templates, channels), and ``noise``, (chunks, channels)."""
    chunks, templates = case["chunks"], case["templates"]
    channels, samples = chunks[0].shape
    length = _smooth(samples + max(map(len, templates)) - 1)
    spectra = [torch.fft.fft(t.to(device).to(torch.complex64), n=length).conj() for t in templates]
    shape = (len(chunks), len(templates), channels)
    values = torch.empty(shape, device=device)
    places = torch.empty(shape, device=device, dtype=torch.long)
    noise = torch.empty(len(chunks), channels, device=device)
    if device == "cpu":
        for number, chunk in enumerate(chunks):
            _of_chunk(chunk, spectra, length, (values[number], places[number], noise[number]))
        return {"values": values, "places": places, "noise": noise}
    copying, depth = torch.cuda.Stream(), 3
    staged = [torch.empty(chunks[0].shape, dtype=chunks[0].dtype, pin_memory=True) for _ in range(depth)]
    on_device = [torch.empty(chunks[0].shape, dtype=chunks[0].dtype, device=device) for _ in range(depth)]
    arrived, free = ([torch.cuda.Event() for _ in range(depth)] for _ in range(2))
    for number, chunk in enumerate(chunks):
        slot = number % depth
        arrived[slot].synchronize()  # the pinned buffer has been read
        staged[slot].copy_(chunk)
        with torch.cuda.stream(copying):
            copying.wait_event(free[slot])
            on_device[slot].copy_(staged[slot], non_blocking=True)
            arrived[slot].record(copying)
        torch.cuda.current_stream().wait_event(arrived[slot])
        _of_chunk(on_device[slot], spectra, length, (values[number], places[number], noise[number]))
        free[slot].record()
    return {"values": values.cpu(), "places": places.cpu(), "noise": noise.cpu()}
