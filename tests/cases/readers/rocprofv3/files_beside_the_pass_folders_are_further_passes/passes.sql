SELECT name, dispatches, matched, unmatched FROM passes
