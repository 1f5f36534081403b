"""Work shared by the threads of a process, the processes of a machine, and several machines."""
