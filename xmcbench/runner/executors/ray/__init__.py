"""Cells on a Ray cluster. Nothing here is imported without ``--on ray``; ``driver`` is the executor."""
