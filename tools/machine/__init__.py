"""Finding devices, profilers and permissions from files and short programs; one module per source, no GPU package."""
