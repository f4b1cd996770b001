"""The mechanisms of SASL: they read tokens of a client and make tokens for it. Pure."""
