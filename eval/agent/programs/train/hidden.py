"""Hidden tests: the same training in FP64, with a decoder and an activation of its own."""

import math
import random

import torch
import torch.nn.functional as F


def _code(numbers):
    made, last = bytearray(), 0
    for number in numbers:
        value = (number - last) << 1
        value, last = value ^ (value >> 63), number
        while value >= 0x80:
            made.append(value & 0x7F | 0x80)
            value >>= 7
        made.append(value)
    return bytes(made)


def make(seed, small):
    """Sequences whose class is the residue that most of their events share."""
    chosen, torch_chosen = random.Random(seed), torch.Generator().manual_seed(seed)
    hidden, layers, length, vocabulary, classes = (16, 2, 20, 300, 5) if small else (1024, 6, 64, 20000, 10)
    samples, batch, steps = (40, 8, 6) if small else (4096, 256, 40)
    blobs, labels = [], []
    for _ in range(samples):
        label = chosen.randrange(classes)
        events = [chosen.randrange(vocabulary // classes) * classes + label for _ in range(length)]
        events = [e if chosen.random() < 0.5 else chosen.randrange(vocabulary) for e in events]
        blobs.append(_code([*events, *(chosen.randrange(vocabulary) for _ in range(chosen.randrange(4)))]))
        labels.append(label)
    sizes = {"embedding.weight": (vocabulary, hidden), "head.weight": (classes, hidden), "head.bias": (classes,)}
    for n in range(layers):
        sizes |= {
            f"layers.{n}.norm.weight": (hidden,), f"layers.{n}.norm.bias": (hidden,),
            f"layers.{n}.into.weight": (4 * hidden, hidden), f"layers.{n}.into.bias": (4 * hidden,),
            f"layers.{n}.out.weight": (hidden, 2 * hidden), f"layers.{n}.out.bias": (hidden,),
        }  # fmt: skip
    parameters = {
        name: torch.randn(size, generator=torch_chosen) * (1 if len(size) == 1 else math.sqrt(size[-1])) ** -1 * 0.5
        for name, size in sizes.items()
    }
    return {
        "blobs": blobs, "labels": labels, "length": length, "vocabulary": vocabulary, "classes": classes,
        "hidden": hidden, "layers": layers, "parameters": parameters, "rate": 0.05,
        "batches": [chosen.sample(range(samples), batch) for _ in range(steps)],
    }  # fmt: skip


def _decode(blob, length, vocabulary):
    numbers, at, last = [], 0, 0
    while len(numbers) < length:
        value, shift = 0, 0
        while True:
            value |= (blob[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if blob[at - 1] < 0x80:
                break
        last += (value >> 1) if value % 2 == 0 else -((value >> 1) + 1)
        numbers.append(last % vocabulary)
    return numbers


def check(case, result, device):
    """What is wrong, or None."""
    w = {n: p.to(device).double().requires_grad_() for n, p in case["parameters"].items()}
    speeds = {n: torch.zeros_like(p) for n, p in w.items()}
    events = torch.tensor([_decode(b, case["length"], case["vocabulary"]) for b in case["blobs"]], device=device)
    labels, losses = torch.tensor(case["labels"], device=device), []
    for batch in case["batches"]:
        x = w["embedding.weight"][events[batch]]
        for n in range(case["layers"]):
            names = [f"{part}.{kind}" for part in ("norm", "into", "out") for kind in ("weight", "bias")]
            own = {k: w[f"layers.{n}.{k}"] for k in names}  # fmt: skip
            y = F.layer_norm(x, (case["hidden"],), own["norm.weight"], own["norm.bias"])
            u, g = F.linear(y, own["into.weight"], own["into.bias"]).chunk(2, dim=-1)
            x = x + F.linear(u * torch.sigmoid(g), own["out.weight"], own["out.bias"])
        loss = F.cross_entropy(F.linear(x.mean(1), w["head.weight"], w["head.bias"]), labels[batch])
        gradients = dict(zip(w, torch.autograd.grad(loss, list(w.values())), strict=True))
        norm = torch.sqrt(sum(g.pow(2).sum() for g in gradients.values()))
        with torch.no_grad():
            for name, p in w.items():
                speeds[name] = 0.9 * speeds[name] + gradients[name] * min(1.0, (1 / (norm + 1e-6)).item())
                p -= case["rate"] * speeds[name]
        losses.append(loss.item())
    want = torch.tensor(losses)
    got = result["losses"].double().cpu()
    if got.shape != want.shape or not torch.allclose(got, want.double(), rtol=0.02):
        return f"the losses differ: {got[:3].tolist()} ... instead of {losses[:3]} ..."
    for name, p in w.items():
        moved = (p - case["parameters"][name].to(device).double()).norm()
        off = (result["parameters"][name].to(device).double() - p).norm()
        if not off <= 0.05 * moved + 1e-6:
            return f"{name} is off by {off / moved:.2g} of its change"
    return None
