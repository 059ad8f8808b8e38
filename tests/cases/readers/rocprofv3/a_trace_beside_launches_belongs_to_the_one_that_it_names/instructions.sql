SELECT kernel, launch, launches, code_object, "offset", class, source_line, executed, latency_cycles, stall_cycles, idle_cycles, target, waits_for, inlined FROM instructions ORDER BY ALL
