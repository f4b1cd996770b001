"""Handlers of APIs about records: produce, fetch, offsets, producers, deletion of records."""
