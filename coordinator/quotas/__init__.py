"""Quotas of clients (KIP-13, KIP-55, KIP-546, KIP-599, KIP-612): their entities and their effects. Pure."""
