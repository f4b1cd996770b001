"""Handlers of who clients are and what they may do: SASL, and the credentials of users."""
