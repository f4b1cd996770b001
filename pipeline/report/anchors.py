"""The places of a page that a link can name: readable, and the same in every analysis. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from muster.pipeline.wording import moment

_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MARKED: Final = re.compile(r"-[0-9a-f]{8}$")
_LONGEST: Final = 60
_DIGITS: Final = 8


def slug(name: str) -> str:
    """A name as a part of a link: `payments` as it is; what cannot stand there goes, and some digits tell names apart
    that would be alike then.
    """
    plain = _ODD.sub("_", name)
    if plain == name and 0 < len(plain) <= _LONGEST and not _MARKED.search(plain):
        return plain
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{plain[:_LONGEST]}-{digest}"


def group(name: str) -> str:
    """The place of a group."""
    return f"group-{slug(name)}"


def rebalance(row: Mapping[str, Any]) -> str:
    """The place of a rebalance. A group that was deleted and made again has a generation twice: the time tells which,
    and also after older ones have gone from the page.
    """
    at = "" if row["end_ms"] is None else re.sub(r"[-:]", "", moment(row["end_ms"])).replace(" ", "T")
    number = "none" if row["generation"] is None else row["generation"]
    return f"rebalance-{slug(row['group'])}-{number}{f'-{at}' if at else ''}"
