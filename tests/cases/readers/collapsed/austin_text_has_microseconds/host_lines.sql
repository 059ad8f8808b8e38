SELECT function, file, line, own, self_samples, total_samples, round(self_ns / 1e6) AS self_ms FROM host_lines ORDER BY coalesce(self_ns, 0) DESC, self_samples DESC, function, line LIMIT 5
