SELECT count(*) AS passes FROM passes
