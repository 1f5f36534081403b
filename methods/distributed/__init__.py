"""Work shared by the processes of a machine, and by several machines."""
