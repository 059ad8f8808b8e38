"""Hidden tests: features and encoder written out in FP32, one recording at a time; search and clusters in FP64.

Tolerances: an embedding may be off by CLOSE of the spread of all embeddings, CLOSE_MEAN on average; a neighbour's
cosine may be COSINE below that of the neighbour of its rank; tightness of clusters may be TIGHT below that of FP64.
"""

import zlib

import numpy as np
import torch
import torch.nn.functional as F

CLOSE, CLOSE_MEAN = 0.25, 0.1
COSINE = 2e-3
TIGHT = 0.01
TOKENS, SHORTEST, NEIGHBOURS, ROUNDS, RATE = 50, 10, 10, 20, 16000


def make(seed, small):
    """Recordings of keywords (gliding tones with their own rhythm) of very different lengths, and a model."""
    chosen = np.random.default_rng(seed)
    clips, keywords = 24 if small else 520, 4 if small else 24
    pitches = chosen.uniform(120, 3500, (keywords, 6))
    rhythms = chosen.uniform(0.06, 0.25, keywords)
    samples, spoken = [], []
    for _ in range(clips):
        keyword = int(chosen.integers(keywords))
        seconds = float(np.clip((0.9 if small else 3.0) * np.exp(chosen.normal(0, 0.75)), 0.4, 2.5 if small else 14))
        time = np.arange(int(seconds * RATE)) / RATE
        part = (time / (rhythms[keyword] * chosen.uniform(0.9, 1.1))).astype(int) % 6
        tone = pitches[keyword][part] * chosen.uniform(0.95, 1.05)
        phase = 2 * np.pi * np.cumsum(tone) / RATE
        sound = np.sin(phase) + 0.5 * np.sin(2 * phase) + 0.3 * chosen.normal(0, 1, len(time))
        loud = chosen.uniform(0.1, 0.4) * (0.6 + 0.4 * np.sin(2 * np.pi * time * 3))
        samples.append((np.clip(sound * loud, -1, 1) * 32000).astype(np.int16))
        spoken.append(keyword)
    model = {
        "feature_projection_input_dim": 160, "hidden_size": 64 if small else 768,
        "intermediate_size": 128 if small else 3072, "num_hidden_layers": 2 if small else 12,
        "num_attention_heads": 4 if small else 12, "position_embeddings_type": "relative_key",
        "left_max_position_embeddings": 64, "right_max_position_embeddings": 8, "conv_depthwise_kernel_size": 31,
        "vocab_size": 32, "mask_time_prob": 0.0, "layer_norm_eps": 1e-5,
    }  # fmt: skip
    return {
        "sampling_rate": RATE, "clips": samples, "keywords": spoken, "model": model, "seed": seed % 100003,
        "first": (chosen.permutation(8 * keywords)[:keywords] / (8 * keywords)).tolist(),
    }  # fmt: skip


def _filters():
    """Triangles over the mel scale of Kaldi: frequencies (257) by filters (80)."""
    mel = 1127.0 * np.log(1.0 + np.arange(257) * (RATE / 2 / 256) / 700.0)
    low, high = (1127.0 * np.log(1.0 + f / 700.0) for f in (20.0, RATE / 2))
    edges = np.linspace(low, high, 82)
    up = (mel[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - mel[:, None]) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(up, down))


def _features(samples):
    """Normalised log-mel features of one recording, two frames a row."""
    wave = samples.astype(np.float64) / 32768
    wave = wave * (0.9 / max(np.abs(wave).max(), 1e-4)) * 32768
    frames = np.lib.stride_tricks.sliding_window_view(wave, 400)[::160]
    frames = frames - frames.mean(1, keepdims=True)
    frames = np.concatenate([frames[:, :1] * (1 - 0.97), frames[:, 1:] - 0.97 * frames[:, :-1]], 1)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85
    power = np.abs(np.fft.rfft(frames * window, 512)) ** 2
    mels = np.log(np.maximum(power @ _filters(), 1.192092955078125e-07))
    mels = (mels - mels.mean(0)) / np.sqrt(mels.var(0, ddof=1) + 1e-7)
    return mels[: len(mels) // 2 * 2].reshape(-1, 160).astype(np.float32)


class _Conformer:
    """The encoder in FP32 with parameters made by the rule of weights.py."""

    def __init__(self, case, device):
        self.of, self.device, self.seed, self.known = case["model"], device, case["seed"], {}

    def normal(self, name, *shape):
        if name not in self.known:
            made = torch.Generator(self.device).manual_seed(zlib.crc32(f"{self.seed}/{name}".encode()))
            scale = shape[1] ** -0.5
            scale = 0.5 if "distance" in name else shape[2] ** -0.5 if "depthwise" in name else scale
            self.known[name] = torch.randn(shape, generator=made, device=self.device) * scale
        return self.known[name]

    def norm(self, x):
        return F.layer_norm(x, x.shape[-1:], eps=self.of["layer_norm_eps"])

    def forward_layer(self, x, at):
        n, width = x.shape
        inner, heads, kernel = (
            self.of[k] for k in ("intermediate_size", "num_attention_heads", "conv_depthwise_kernel_size")
        )
        left, right = self.of["left_max_position_embeddings"], self.of["right_max_position_embeddings"]
        size = width // heads

        def feed(x, name):
            y = F.silu(self.norm(x) @ self.normal(f"{at}{name}.intermediate_dense.weight", inner, width).T)
            return x + 0.5 * (y @ self.normal(f"{at}{name}.output_dense.weight", width, inner).T)

        x = feed(x, "ffn1")
        y = self.norm(x)
        q, k, v = (
            (y @ self.normal(f"{at}self_attn.linear_{p}.weight", width, width).T).view(n, heads, size).transpose(0, 1)
            for p in "qkv"
        )
        place = torch.arange(n, device=self.device)
        away = (place[None] - place[:, None]).clamp(-left, right) + left
        table = self.normal(f"{at}self_attn.distance_embedding.weight", left + right + 1, size)
        shift = (q @ table.T).gather(2, away.expand(heads, n, n))
        mixed = torch.softmax((q @ k.transpose(1, 2) + shift) * size**-0.5, -1) @ v
        x = (
            x
            + mixed.transpose(0, 1).reshape(n, width) @ self.normal(f"{at}self_attn.linear_out.weight", width, width).T
        )
        y = self.norm(x) @ self.normal(f"{at}conv_module.pointwise_conv1.weight", 2 * width, width, 1)[:, :, 0].T
        y = F.pad(F.glu(y, -1).T, (kernel - 1, 0))
        y = F.conv1d(y, self.normal(f"{at}conv_module.depthwise_conv.weight", width, 1, kernel), groups=width).T
        y = F.silu(self.norm(y))
        x = x + y @ self.normal(f"{at}conv_module.pointwise_conv2.weight", width, width, 1)[:, :, 0].T
        return self.norm(feed(x, "ffn2"))

    def __call__(self, samples):
        x = torch.from_numpy(_features(samples)).to(self.device)
        width = self.of["hidden_size"]
        x = self.norm(x) @ self.normal("feature_projection.projection.weight", width, 160).T
        for n in range(self.of["num_hidden_layers"]):
            x = self.forward_layer(x, f"encoder.layers.{n}.")
        return x


def _cut(samples):
    places = (1 + (len(samples) - 400) // 160) // 2
    parts = [(begin, min(begin + TOKENS, places)) for begin in range(0, places, TOKENS)]
    return [(begin, end) for begin, end in parts if end - begin >= SHORTEST or begin == 0]


def _means(vectors, centres):
    for _ in range(ROUNDS):
        labels = (vectors @ centres.T).argmax(-1)
        sums = torch.zeros_like(centres).index_add_(0, labels, vectors)
        centres = torch.where(sums.norm(dim=-1, keepdim=True) > 0, F.normalize(sums, dim=-1), centres)
    return (vectors @ centres.T).amax(-1).mean().item()


def check(case, result, device):
    """What is wrong, or None."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.no_grad():
            return _check(case, result, device)
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def _check(case, result, device):
    want = [(number, *part) for number, samples in enumerate(case["clips"]) for part in _cut(samples)]
    if [tuple(int(n) for n in one) for one in result["segments"]] != want:
        return "the segments are not those of the recordings"
    vectors = torch.as_tensor(result["embeddings"]).to(device).double()
    if vectors.shape != (len(want), case["model"]["hidden_size"]) or not vectors.isfinite().all():
        return f"embeddings have the shape {tuple(vectors.shape)} or are not finite"
    encoder, off = _Conformer(case, device), []
    spread = (vectors - vectors.mean(0)).norm(dim=-1).mean()
    for number in range(0, len(case["clips"]), max(1, len(case["clips"]) // 40)):
        states = encoder(case["clips"][number])
        rows = [n for n, one in enumerate(want) if one[0] == number]
        for row in rows:
            own = states[want[row][1] : want[row][2]].mean(0)
            off.append(((vectors[row] - own).norm() / spread).item())
    if not (max(off) <= CLOSE and np.mean(off) <= CLOSE_MEAN):
        return f"embeddings are off by {max(off):.3g} of their spread, {np.mean(off):.3g} on average"

    units = F.normalize(vectors - vectors.mean(0), dim=-1)
    cosines = units @ units.T
    cosines.fill_diagonal_(-2)
    numbers = torch.as_tensor(result["neighbours"]).to(device).long()
    count = min(NEIGHBOURS, len(want) - 1)
    if numbers.shape != (len(want), count):
        return f"neighbours have the shape {tuple(numbers.shape)}"
    if numbers.min() < 0 or numbers.max() >= len(want) or (numbers.sort(-1).values.diff(dim=-1) == 0).any():
        return "neighbours are named twice or do not exist"
    best, found = cosines.topk(count).values, cosines.gather(1, numbers)
    if (found < best - COSINE).any():
        return "some neighbours are not the nearest"
    if (torch.as_tensor(result["cosines"]).to(device).double() - found).abs().max() > COSINE:
        return "cosines do not belong to the neighbours"
    spoken = torch.tensor([case["keywords"][one[0]] for one in want], device=device)
    shares = (spoken[numbers] == spoken[:, None]).double().mean().item()
    if abs(shares - float(result["precision"])) > 1e-4:
        return f"the precision is {shares:.4f}"

    centres = torch.as_tensor(result["centres"]).to(device).double()
    labels = torch.as_tensor(result["labels"]).to(device).long()
    if centres.shape != (len(case["first"]), vectors.shape[1]) or labels.shape != (len(want),):
        return "centres or labels have a wrong shape"
    if labels.min() < 0 or labels.max() >= len(centres) or (centres.norm(dim=-1) - 1).abs().max() > 1e-3:
        return "labels do not exist or centres are no unit vectors"
    near = units @ centres.T
    own = near.gather(1, labels[:, None])[:, 0]
    if (own < near.amax(-1) - COSINE).any():
        return "some segments are not with their nearest centre"
    goal = _means(units, units[[int(share * len(want)) for share in case["first"]]])
    if own.mean() < goal - TIGHT or abs(own.mean().item() - float(result["tightness"])) > COSINE:
        return f"tightness is {own.mean():.4f} ({float(result['tightness']):.4f} as told), {goal:.4f} is reached"
    table = torch.zeros(len(centres), max(case["keywords"]) + 1, device=device)
    table.index_put_((labels, spoken), torch.ones(len(want), device=device), accumulate=True)
    purity = (table.amax(-1).sum() / len(want)).item()
    return None if abs(purity - float(result["purity"])) <= 1e-4 else f"the purity is {purity:.4f}"
