"""rocprof-compute (Omniperf): read only."""
