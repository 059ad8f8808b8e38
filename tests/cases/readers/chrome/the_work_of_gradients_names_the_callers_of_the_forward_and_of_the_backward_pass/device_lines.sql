SELECT kernel, function, called, gradient_of FROM device_lines ORDER BY kernel
