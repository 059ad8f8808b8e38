SELECT name FROM ranges
