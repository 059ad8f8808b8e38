"""Which counters in which passes."""
