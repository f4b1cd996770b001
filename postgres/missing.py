"""Whether what `--cluster` needs is installed. Imports nothing of it."""

from __future__ import annotations

from importlib.util import find_spec


class MissingExtra(Exception):
    """A sentence that says what to install."""


def check() -> None:
    """Raises MissingExtra."""
    if find_spec("asyncpg") is None:
        raise MissingExtra("a cluster needs asyncpg: pip install 'muster-kafka[cluster]'")
