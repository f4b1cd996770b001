"""The exception for every error of the configuration."""

from __future__ import annotations


class ConfigError(Exception):
    """The configuration cannot be used. Its text is one sentence: the value, what was expected, what to do."""
