"""What the server takes from the machine: time, jobs in steps, memory, files, names of hosts, and log lines."""
