SELECT "smsp__inst_00000.sum" FROM counters ORDER BY dispatch_id
