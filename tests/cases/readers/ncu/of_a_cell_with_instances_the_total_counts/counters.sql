SELECT "lts__t_sectors.sum" FROM counters ORDER BY ALL
