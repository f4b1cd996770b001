"""Bytes in, bytes out: listeners, connections, back-pressure and limits. Knows frames, but no API and no group."""
