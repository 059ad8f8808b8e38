SELECT dispatch_id, kernel, device_id, counter, "timestamp", "position", xcd, shader_engine, instance, value FROM counter_samples ORDER BY ALL
