"""The command line: one module per verb. Each has ``add`` (its arguments) and ``run`` (what it does)."""
