"""What must not be lost, whatever happens to the process: longer than a test should take with `make torture`."""
