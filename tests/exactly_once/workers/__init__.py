"""The application, once in each client. Every worker takes the same words and says the same lines (`common.py`)."""
