"""The control of a server under test over HTTP. `openapi.json` has the verbs of the control, and their parameters."""
