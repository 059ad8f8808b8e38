"""Kernels with known work: built, launched, verified, and held against what a profiler counts of them."""
