SELECT pid, kind, category, count(*) AS calls FROM events GROUP BY ALL ORDER BY ALL
