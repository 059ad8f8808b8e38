"""Traces in Chrome's format: PyTorch, rocprof v1, and whatever else writes it."""
