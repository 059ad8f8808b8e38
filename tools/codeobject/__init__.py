"""Kernels of AMD code objects, read from the notes of ELF files, from offload bundles, and from programs."""
