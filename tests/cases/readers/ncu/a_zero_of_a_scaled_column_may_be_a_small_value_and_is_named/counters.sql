SELECT dispatch_id, "dram__bytes.sum" FROM counters ORDER BY dispatch_id
