SELECT duration_ns, "duration_ns@pass_1", "sm__a.sum" FROM counters
