"""The mechanisms of SASL: tokens of a client in, tokens for it out. Pure; imported when a listener asks for SASL."""
