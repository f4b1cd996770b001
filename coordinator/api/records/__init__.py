"""Handlers of records: producing, fetching, offsets, producers, deletion of records."""
