SELECT function, self_ns, total_ns FROM host_lines WHERE own AND file IS NOT NULL ORDER BY function
