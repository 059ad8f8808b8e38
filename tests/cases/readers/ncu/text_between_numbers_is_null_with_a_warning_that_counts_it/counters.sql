SELECT dispatch_id, "l2__x.sum" FROM counters ORDER BY dispatch_id
