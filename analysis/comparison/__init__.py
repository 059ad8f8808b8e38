"""Comparison of two workloads: what got faster, whether both did the same work, and what the time changed by."""
