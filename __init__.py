"""rooflens: measure, understand and improve GPU kernels, for AI coding assistants and people."""

__version__ = "0.1.0"
