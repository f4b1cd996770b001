"""`muster groups`: show the groups of a running server, and change them. Most of it works with any Kafka."""
