SELECT name, dispatches, matched FROM passes
