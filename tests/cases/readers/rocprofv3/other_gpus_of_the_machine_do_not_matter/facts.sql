SELECT fact, value FROM facts WHERE fact = 'cu_per_gpu'
