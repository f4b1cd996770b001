"""The network: listeners, connections, back-pressure and limits. This package knows frames, but no API and no group."""
