SELECT counter, instance, value FROM counter_instances ORDER BY ALL
