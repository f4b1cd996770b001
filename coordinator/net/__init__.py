"""The network: listeners, connections, back-pressure and limits. It knows frames, but no API and no group."""
