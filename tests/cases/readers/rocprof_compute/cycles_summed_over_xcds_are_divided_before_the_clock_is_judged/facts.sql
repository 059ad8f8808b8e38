SELECT fact, value FROM facts WHERE fact IN ('num_xcd', 'max_sclk') ORDER BY fact
