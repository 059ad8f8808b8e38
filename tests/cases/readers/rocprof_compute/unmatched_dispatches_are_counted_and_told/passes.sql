SELECT name, dispatches, matched, unmatched FROM passes ORDER BY ALL
