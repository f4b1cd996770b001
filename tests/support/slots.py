"""The fields of objects with slots."""

from __future__ import annotations


def slots_of(kind: type) -> list[str]:
    """The names of all slots of a class, with those of its base classes."""
    return [name for one in kind.__mro__ for name in getattr(one, "__slots__", ())]
