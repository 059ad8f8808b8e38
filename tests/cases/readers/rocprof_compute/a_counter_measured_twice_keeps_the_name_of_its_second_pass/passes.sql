SELECT name FROM passes
