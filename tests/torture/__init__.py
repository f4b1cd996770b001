"""What must never be lost, whatever happens to the process. `make torture` runs longer than a test should."""
