"""Where the wall time of a program goes: its timeline of device work and host calls, split, explained and judged."""
