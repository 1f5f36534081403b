"""The command line: one module a verb. Each has ``add`` (its arguments) and ``run`` (what it does)."""
