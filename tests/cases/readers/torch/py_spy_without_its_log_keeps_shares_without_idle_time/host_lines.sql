SELECT function, line, round(self_ns / 1e6) AS self_ms, idle_ns, (SELECT count(start_ns) FROM host_samples) AS timed FROM host_lines WHERE own AND self_ns > 2e6 ORDER BY self_ns DESC
