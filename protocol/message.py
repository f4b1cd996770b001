"""The base class of all generated messages, and the errors of the codec."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

ZERO_UUID: Final = bytes(16)
"""Kafka's Uuid.ZERO_UUID, which stands for a missing topic id or member id."""


_AT_A_TIME: Final = 200


class Message:
    """One struct of Kafka's protocol in its newest shape: every field of every version, with Kafka's defaults.

    A list and a tuple with the same elements compare as equal. Messages are mutable, so they are not hashable.
    """

    __slots__: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # Python's way to say "unhashable"

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


M = TypeVar("M", bound=Message)


def copied(message: M) -> M:
    """Another message with the same values of all fields."""
    made = type(message)()
    for name in message.__slots__:
        setattr(made, name, getattr(message, name))
    return made


def take_apart(message: Message) -> None:
    """Free the parts of a large message in small steps. The message must not be used afterwards.

    Python would free a list of 250,000 messages without a pause. For these 80 ms no other thread could run.
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
    """The base of all errors of the codec."""


class MalformedMessage(ProtocolError):
    """The bytes are not a message of the expected layout.

    `path` names the first field that cannot be read ("JoinGroupRequest.protocols[3].name"), `reason` says why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class UnrepresentableField(ProtocolError):
    """A message cannot be encoded in the requested version. This is a bug of the program, not of the peer.

    Raised for a field that has another value than its default, is not in that version, and is not ignorable. Also
    raised for a value that does not fit its type. The caller sets `version`.
    """

    def __init__(self, path: str, reason: str = "is not in this version") -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason
        self.version: int | None = None

    def __str__(self) -> str:
        version = "" if self.version is None else f" (version {self.version})"
        return f"{self.path} {self.reason}{version}"
