"""One module per profiler: how to read (and later run) it."""
