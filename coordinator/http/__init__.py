"""The HTTP door of a server (docs/metrics.md). Only a server with a door imports the modules that need Starlette."""
