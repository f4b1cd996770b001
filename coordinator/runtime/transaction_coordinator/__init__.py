"""The transaction coordinator's part of the runtime: its shards, records as bytes, and the writing of markers."""
