SELECT name, matched, unmatched FROM passes ORDER BY name
