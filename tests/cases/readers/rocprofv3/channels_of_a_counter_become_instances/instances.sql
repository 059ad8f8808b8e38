SELECT counter, xcd, count(*) AS instances, max(instance) AS last, min(value) AS lowest, max(value) AS highest FROM counter_instances GROUP BY ALL ORDER BY ALL
