SELECT count(DISTINCT pid) AS processes FROM events
