"""The quotas of clients: who has which, and their changes."""
