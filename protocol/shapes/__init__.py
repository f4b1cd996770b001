"""Converters of messages whose shape has changed: a small module for each API. `protocol.api` has their versions."""
