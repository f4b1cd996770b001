"""Checks before a start with `--cluster`: the database URL, and the packages that it needs. This module imports none of
the packages. The checks read PGTARGETSESSIONATTRS, as PostgreSQL's clients do.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Final
from urllib.parse import parse_qs, urlsplit


class MissingExtra(Exception):
    """The packages for `--cluster` are missing. The text is a sentence that says what to install."""


def check() -> None:
    """Raises MissingExtra."""
    if find_spec("asyncpg") is None:
        raise MissingExtra("a cluster needs asyncpg: pip install 'muster-kafka[cluster]'")


WRITES: Final = ("read-write", "primary")
"""The values of target_session_attrs with which a client accepts only a server that takes writes."""


def hosts(url: str) -> int:
    """How many servers the URL names."""
    parts = urlsplit(url)
    given = parts.netloc.rpartition("@")[2] or ",".join(parse_qs(parts.query).get("host", ()))
    return given.count(",") + 1


def warnings(url: str) -> list[str]:
    """Sentences about what may keep a node from serving after a failover."""
    count = hosts(url)
    target = parse_qs(urlsplit(url).query).get("target_session_attrs", [os.environ.get("PGTARGETSESSIONATTRS", "any")])
    if count == 1 or target[-1] in WRITES:
        return []
    return [
        f"the URL of the database names {count} hosts with target_session_attrs={target[-1]}: a node may connect to a "
        "standby, which takes no writes; add target_session_attrs=read-write"
    ]
