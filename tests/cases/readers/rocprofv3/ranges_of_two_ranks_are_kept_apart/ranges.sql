SELECT count(*) AS ranges, count(DISTINCT pid) AS processes FROM ranges
