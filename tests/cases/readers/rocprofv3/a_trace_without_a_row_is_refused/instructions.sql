SELECT kernel, length(instruction) AS characters, "offset", executed, latency_cycles, stall_cycles, idle_cycles FROM instructions ORDER BY ALL
