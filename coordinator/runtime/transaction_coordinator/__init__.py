"""The transaction side of the runtime: shards of __transaction_state, records as bytes, and the writing of markers."""
