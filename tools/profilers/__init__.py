"""One folder per profiler: how to read what it writes, and how to run it; registry.py lists them."""
