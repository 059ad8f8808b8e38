SELECT kernel, kernel_raw FROM dispatches
