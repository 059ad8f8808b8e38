SELECT stream FROM events WHERE name = 'cudaLaunchKernel'
