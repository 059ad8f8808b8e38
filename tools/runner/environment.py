"""Which variables a program may inherit from the server, and keeping secrets out of what is written down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_PASSED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "TMP", "TEMP",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME",
    "XDG_DATA_HOME", "XDG_CONFIG_HOME", "ROOFLENS_CATALOGUE",
})  # fmt: skip
_PASSED_PREFIXES = (
    "LC_", "PYTHON",
    "CUDA_", "NVIDIA_", "NV_", "NCCL_", "CUBLAS_", "CUDNN_",
    "ROC", "HIP", "HSA_", "AMD_", "AMDGPU_", "GPU_", "RCCL_", "MIOPEN_", "TENSILE_",
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_",
    "PYTORCH_", "TORCH_", "TF_CPP_", "TF_GPU_", "TF_XLA_", "TF_ENABLE_", "TF_FORCE_", "XLA_", "JAX_", "TRITON_",
    "KOKKOS_",
    "SLURM_", "PBS_", "LSB_", "FLUX_", "OMPI_", "PMI_", "PMIX_", "MPI", "I_MPI_", "MV2_", "UCX_", "FI_",
)  # fmt: skip
_SECRET = re.compile(
    r"TOKEN|SECRET|PASS(WORD|WD|PHRASE)?($|_)|_PW$|KEY|CREDENTIAL|COOKIE|PRIVATE|JWT|OAUTH|BEARER|SIGNATURE|^AWS_|^AZURE_|"
    r"^GITHUB_|^GITLAB_|^OPENAI_|^ANTHROPIC_|^GOOGLE_",
    re.IGNORECASE,
)
_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+/=_.~-]{20,}")
_SHORTEST = 6
"""Characters of a secret worth looking for; shorter texts occur by chance."""
HIDDEN = "[withheld]"


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of the server's environment that programs get: what they need to run, nothing that names a secret."""
    return {
        name: value
        for name, value in environment.items()
        if (name in _PASSED or name.startswith(_PASSED_PREFIXES)) and not _SECRET.search(name)
    }


def secrets(environment: Mapping[str, str], given: Mapping[str, str]) -> list[str]:
    """Values that must not be shown: of withheld variables that look secret, and of such among the caller's own.

    A withheld value counts where its name says so, or where it looks drawn at random.
    """
    passed = inherited(environment)
    withheld = {n: v for n, v in environment.items() if n not in passed}
    found = [v for n, v in withheld.items() if _SECRET.search(n) or (_RANDOM.fullmatch(v) and "/" not in v)]
    found += [v for n, v in given.items() if _SECRET.search(n)]
    return sorted({v for v in found if len(v) >= _SHORTEST}, key=len, reverse=True)


def without(environment: Mapping[str, str], prefixes: Iterable[str]) -> dict[str, str]:
    """The variables whose names start with none of ``prefixes``."""
    unwanted = tuple(prefixes)
    return {name: value for name, value in environment.items() if not (unwanted and name.startswith(unwanted))}


def redacted(text: str, hidden: Sequence[str]) -> str:
    """``text`` with every one of ``hidden`` (longest first) taken out."""
    for secret in hidden:
        text = text.replace(secret, HIDDEN)
    return text
