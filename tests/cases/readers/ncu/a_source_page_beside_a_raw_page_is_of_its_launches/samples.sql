SELECT kernel, dispatch_id, sum(count)::BIGINT AS samples FROM samples GROUP BY ALL ORDER BY ALL
