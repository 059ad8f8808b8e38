SELECT code_object, instruction FROM instructions ORDER BY ALL
