SELECT name, dispatches, unmatched FROM passes ORDER BY name
