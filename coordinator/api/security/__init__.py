"""Handlers of SASL authentication, of SCRAM credentials and of delegation tokens."""
