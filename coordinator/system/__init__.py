"""What the server uses of the machine: time, jobs in steps, memory, files, names of hosts, and log lines."""
