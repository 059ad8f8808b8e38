"""Rooflines: ceilings, points, limits."""
