"""Executors: where the processes of cells run. ``base`` is what a run asks of one; ``local`` is this machine."""
