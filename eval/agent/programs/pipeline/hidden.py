"""Hidden tests: some chunks are filtered again in FP64, with transforms of another length."""

import torch


def make(seed, small):
    """Noise with a copy of a template in every channel."""
    chosen = torch.Generator().manual_seed(seed)
    chunks, channels, samples, count = (3, 2, 509, 2) if small else (24, 32, 260_003, 8)
    length = 64 if small else 4096
    templates = [torch.randn(length - 3 * i, generator=chosen, dtype=torch.complex128) for i in range(count)]
    made = []
    for _ in range(chunks):
        chunk = torch.randn(channels, samples, generator=chosen, dtype=torch.complex64)
        for channel in range(channels):
            template = templates[int(torch.randint(count, (1,), generator=chosen))].to(torch.complex64)
            at = int(torch.randint(samples - len(template), (1,), generator=chosen))
            chunk[channel, at : at + len(template)] += 0.5 * template
        made.append(chunk)
    return {"chunks": made, "templates": templates}


@torch.no_grad()
def check(case, result, device):
    """What is wrong with some chunks, or None."""
    chunks, templates = case["chunks"], case["templates"]
    shape = (len(chunks), len(templates), chunks[0].shape[0])
    if tuple(result["values"].shape) != shape or tuple(result["places"].shape) != shape:
        return f"values have the shape {tuple(result['values'].shape)}"
    samples = chunks[0].shape[1]
    length = 1 << (samples + len(templates[0])).bit_length()
    for number in {0, len(chunks) // 2, len(chunks) - 1}:
        chunk = chunks[number].to(device).to(torch.complex128)
        noise = chunk.abs().median(-1).values.cpu()
        if not torch.allclose(result["noise"][number].double().cpu(), noise, rtol=1e-3):
            return f"the noise level of chunk {number} is wrong"
        own = torch.fft.fft(chunk, n=length)
        for row, template in enumerate(templates):
            filtered = torch.fft.ifft(own * torch.fft.fft(template.to(device), n=length).conj())[..., :samples].abs()
            values, places = filtered.max(-1)
            got = result["places"][number, row].to(device)
            near = filtered.gather(-1, got[:, None])[:, 0]
            wrong = (got != places) & (near < values * (1 - 1e-5))
            told = result["values"][number, row].to(device).double()
            if bool(wrong.any()) or not torch.allclose(told, values, rtol=1e-3):
                return f"chunk {number}, template {row}: another peak"
    return None
