SELECT fact, value FROM facts ORDER BY fact
