"""The control of a server under test over HTTP: `openapi.json` says which verbs there are, and what each takes."""
