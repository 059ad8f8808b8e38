SELECT fact, value FROM facts WHERE fact = 'num_xcd'
