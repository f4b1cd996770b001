"""The valid values of a property in words, for the sentence that refuses a value."""

from __future__ import annotations

from muster.coordinator.properties.definition import INTEGER_LIMITS, Property

_KINDS = {"BOOLEAN": "true or false", "DOUBLE": "a number", "LIST": "a list with commas between"}


def expected(prop: Property) -> str:
    """For instance `a whole number from 1 to 2147483647`, `one of gzip, lz4, …`."""
    valid = prop.valid or ""
    if prop.type in INTEGER_LIMITS:
        limit = INTEGER_LIMITS[prop.type]
        return "a whole number" + (_range(valid, limit) or f" from {-limit - 1} to {limit}")
    if valid.startswith("["):
        return _KINDS.get(prop.type, "text") + _range(valid)
    body, _, empty = valid.partition(", ")
    for start, words in (("one of ", "one of "), ("any case of ", "one of "), ("some of ", "a list of some of ")):
        if body.startswith(start):
            return words + body.removeprefix(start).replace("|", ", ")
    if empty:
        return "a list with commas between, not empty"
    return valid if prop.type == "STRING" and valid else _KINDS.get(prop.type, valid or "text")


def _range(valid: str, limit: int | None = None) -> str:
    """`limit`: the greatest value where `valid` names none. None means that no limit exists."""
    if valid == "[1,...,9] or -1":
        return " from 1 to 9, or -1"
    if not valid.startswith("["):
        return ""
    least, _, greatest = valid.strip("[]").partition(",...")
    greatest = greatest.lstrip(",") or ("" if limit is None else str(limit))
    return f" from {least} to {greatest}" if greatest else f" of at least {least}"
