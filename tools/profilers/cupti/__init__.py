"""The recorder of kernel times that the CUDA driver loads into a program, and the reader of what it wrote."""
