"""NVIDIA Nsight Compute: how it is run, and how its reports and CSV pages are read."""
