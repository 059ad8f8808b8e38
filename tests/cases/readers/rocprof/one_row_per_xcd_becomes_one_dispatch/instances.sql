SELECT dispatch_id, counter, xcd, instance, value FROM counter_instances ORDER BY ALL
