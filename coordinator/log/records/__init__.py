"""The bytes of a record batch: its header, its records, compression, and the checks of a batch from a client."""
