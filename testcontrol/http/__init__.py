"""The control of a server under test over HTTP. `openapi.json` has its verbs, and their parameters."""
