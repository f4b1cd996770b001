"""The base class of all generated messages and the errors of the codec. Knows no API and no layout."""

from __future__ import annotations

from typing import Any, Final

ZERO_UUID: Final = bytes(16)
"""Kafka's Uuid.ZERO_UUID: no topic id, no member id."""


_AT_A_TIME: Final = 200


class Message:
    """One struct of Kafka's protocol in its newest shape: every field of every version, with Kafka's defaults.

    Arrays compare equal whether list or tuple. Messages are mutable and therefore not hashable.
    """

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable: the way Python says "unhashable"

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


def take_apart(message: Message) -> None:
    """Free the parts of a large message, a little at a time. The message must not be used afterwards.

    Python frees a list of 250,000 messages in one go: for these 80 ms no other thread runs.
    """
    for name in message.__slots__:
        rows = getattr(message, name)
        if type(rows) is not list:
            continue
        while rows:
            some = rows[-_AT_A_TIME:]
            del rows[-_AT_A_TIME:]
            if isinstance(some[0], Message):
                for row in some:
                    take_apart(row)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


class ProtocolError(ValueError):
    """An error between bytes and messages."""


class MalformedMessage(ProtocolError):
    """The bytes are not a message of the layout that they claim.

    `path` names the first field that cannot be read ("JoinGroupRequest.protocols[3].name"), `reason` says why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class UnrepresentableField(ProtocolError):
    """A message cannot be encoded in the requested version: a bug of the program, not of the peer.

    It is raised for a field that is not in that version, not ignorable and not at its default. It is also raised for a
    value that does not fit its type. The caller fills in `version`.
    """

    def __init__(self, path: str, reason: str = "is not in this version") -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason
        self.version: int | None = None

    def __str__(self) -> str:
        version = "" if self.version is None else f" (version {self.version})"
        return f"{self.path} {self.reason}{version}"
