"""rocprof v1 and v2."""
