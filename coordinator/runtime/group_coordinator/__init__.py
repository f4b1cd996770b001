"""The group coordinator's part of the runtime: its shards, records as bytes, and answers while it cannot serve."""
