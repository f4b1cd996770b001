"""Whether the packages that `--cluster` needs are installed. This module imports none of them."""

from __future__ import annotations

from importlib.util import find_spec


class MissingExtra(Exception):
    """The packages are missing. The text is a sentence that says what to install."""


def check() -> None:
    """Raises MissingExtra."""
    if find_spec("asyncpg") is None:
        raise MissingExtra("a cluster needs asyncpg: pip install 'muster-kafka[cluster]'")
