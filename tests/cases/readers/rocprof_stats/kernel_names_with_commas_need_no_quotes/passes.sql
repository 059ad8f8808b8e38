SELECT source FROM passes
