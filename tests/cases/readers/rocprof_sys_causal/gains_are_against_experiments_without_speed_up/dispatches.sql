SELECT function, file, line, progress_point, virtual_speedup_pct, program_speedup_pct, experiments, samples FROM causal
