SELECT function, file, line, self_samples, total_samples, round(self_ns / 1e6) AS self_ms, round(idle_total_ns / 1e6) AS idle_ms FROM host_lines ORDER BY idle_total_ns DESC, line
