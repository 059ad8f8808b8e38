SELECT "sm__a.sum", "sm__b.sum" FROM counters ORDER BY dispatch_id
