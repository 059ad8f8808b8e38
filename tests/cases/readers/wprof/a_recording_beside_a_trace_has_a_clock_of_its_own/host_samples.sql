SELECT (SELECT string_agg(name, ', ' ORDER BY name) FROM events) AS events, count(*) AS spans, count(start_ns) AS timed FROM host_samples
