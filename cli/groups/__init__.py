"""`muster groups` shows and changes the groups of a running server. Most commands work with any Kafka broker."""
