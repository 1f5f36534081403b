"""What only MACLR has: the schedule of its clusters, the tasks of its two stages, its pseudo pairs."""
