SELECT name, dispatches FROM passes
