"""rooflens: measure, understand and improve GPU kernels, for AI coding assistants and people.

From Python: ``store = rooflens.open()``, then ``store["name"].metrics("overview")``; see ``rooflens.api``.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .api import OpenStore, OpenWorkload, Problem, RunFailed, open, samples

__all__ = ["OpenStore", "OpenWorkload", "Problem", "RunFailed", "__version__", "open", "samples"]

if not TYPE_CHECKING:  # a checker would take every name for one of ours

    def __getattr__(name: str) -> object:
        """The names of the Python interface: read when one is asked for, since the server does without pandas."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import api

        return getattr(api, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
