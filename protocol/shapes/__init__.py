"""Converters of messages whose shape differs by version: a module for each API. `protocol.api` has the versions."""
