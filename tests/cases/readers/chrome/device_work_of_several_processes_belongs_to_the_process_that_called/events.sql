SELECT device_id, pid, count(*) AS kernels FROM events WHERE kind = 'kernel' GROUP BY ALL ORDER BY ALL
