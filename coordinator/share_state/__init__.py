"""The core of the share coordinator: what share groups have done with the records of partitions (KIP-932). Pure."""
