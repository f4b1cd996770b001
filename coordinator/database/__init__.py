"""The log of a cluster in PostgreSQL: whoever holds the office serves, and nothing of it lasts on its own machine."""
