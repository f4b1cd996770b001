"""The application, written once for each client. All workers have the same arguments and output lines (`common.py`)."""
