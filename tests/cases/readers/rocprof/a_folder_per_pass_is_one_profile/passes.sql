SELECT name, matched FROM passes
