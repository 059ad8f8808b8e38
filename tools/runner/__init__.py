"""Runs: programs and long work in processes of their own, with state on disk, limits, and a clean end."""
