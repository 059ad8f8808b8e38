SELECT function, file, line, round(self_ns / 1e6) AS self_ms, round(idle_ns / 1e6) AS idle_ms FROM host_lines WHERE own AND idle_ns > 2e6 ORDER BY idle_ns DESC
