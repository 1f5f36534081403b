"""Running cells: plan them, run each in a separate process, write its record as soon as it ends."""
