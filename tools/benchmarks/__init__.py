"""Peak micro-benchmarks: kernels, what each launch of them does, and how their rates are measured and judged."""
