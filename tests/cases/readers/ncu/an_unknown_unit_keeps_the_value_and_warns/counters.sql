SELECT "sm__x.sum" FROM counters ORDER BY ALL
