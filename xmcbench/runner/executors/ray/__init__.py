"""Cells on a Ray cluster. No module is imported without ``--on ray``; ``driver`` is the executor."""
