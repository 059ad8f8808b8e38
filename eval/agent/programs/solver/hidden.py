"""Hidden tests: the residual of the solution, computed in FP64 on the host."""

import subprocess
from pathlib import Path

import numpy as np


def build(version, folder):
    """Build a version; its compiler's words are the problem if it fails."""
    subprocess.run(["sh", str(version / "build.sh"), str(folder)], check=True)


def make(seed, small):
    """A medium of layers and inclusions, and sources."""
    chosen = np.random.default_rng(seed)
    n = 40 if small else 192
    layers = 10.0 ** chosen.uniform(-1, 1, n // 8)
    coefficients = np.repeat(layers, 8)[:, None, None] * np.exp(chosen.normal(0, 0.3, (n, n, n)))
    return {
        "n": n, "most": 3000, "spacing": 1 / n, "tolerance": 1e-4,
        "coefficients": coefficients.astype(np.float32),
        "right": chosen.normal(0, 1, (n, n, n)).astype(np.float32),
    }  # fmt: skip


def run(folder, case):
    """The solution as the program writes it."""
    given, out = Path(folder) / "case", Path(folder) / "out"
    with given.open("wb") as file:
        np.array([case["n"], case["most"]], dtype=np.int32).tofile(file)
        np.array([case["spacing"], case["tolerance"]], dtype=np.float32).tofile(file)
        case["coefficients"].tofile(file)
        case["right"].tofile(file)
    out.unlink(missing_ok=True)
    subprocess.run([str(Path(folder) / "solver"), str(given), str(out)], check=True, stdout=subprocess.DEVNULL)
    return np.fromfile(out, dtype=np.float32)


def check(case, result, device):
    """What is wrong, or None."""
    del device
    n = case["n"]
    if result.shape != (n**3,):
        return f"{result.size} numbers instead of {n**3}"
    u, k, total = result.reshape(n, n, n).astype(np.float64), case["coefficients"].astype(np.float64), 0.0
    for axis in range(3):
        a, b = (np.take(k, np.arange(*r), axis) for r in ((0, n - 1), (1, n)))
        flow = 2 * a * b / (a + b) * np.diff(u, axis=axis)
        ends = [2 * np.take(k, [i], axis) * np.take(u, [i], axis) for i in (0, n - 1)]
        whole = np.concatenate([ends[0], flow, -ends[1]], axis=axis)
        total = total - np.diff(whole, axis=axis)
    residual = np.linalg.norm(total * n**2 - case["right"]) / np.linalg.norm(case["right"])
    return None if residual <= 2e-4 else f"the residual is {residual:.2g} of the right-hand side's norm"
