SELECT device_id, ceiling, gpu, value, low, high, unit FROM ceilings ORDER BY ALL
