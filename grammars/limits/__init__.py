"""Bounds of work and of memory: counted steps, caches of a size in bytes, JSON as their keys.

Start with `steps`."""
