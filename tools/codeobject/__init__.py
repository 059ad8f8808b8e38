"""Kernels of AMD code objects, read from their ELF notes: code objects, offload bundles, and programs that hold them."""
