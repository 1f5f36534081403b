"""Running cells: plan them, run each in a process of its own, write its record the moment it ends."""
