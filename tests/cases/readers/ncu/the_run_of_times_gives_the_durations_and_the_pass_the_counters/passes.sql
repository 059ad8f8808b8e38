SELECT name FROM passes ORDER BY name DESC
