"""Whether counters and formulas hold on a device: kernels whose work is known, what each metric must say of them."""
