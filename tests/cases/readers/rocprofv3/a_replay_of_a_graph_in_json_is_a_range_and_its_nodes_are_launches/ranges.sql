SELECT name, source FROM ranges
