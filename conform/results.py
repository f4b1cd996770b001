"""What came of stories and probes. The reports are made of these values, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """How a story or a probe ended."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    """It differed at first and passed when it was played again, alone: timing decided, so this is no failure."""
    SKIPPED = "skipped"
    """It was not played: the broker does not serve its requests, or has other settings."""


class Severity(StrEnum):
    """How bad a difference is."""

    CLIENTS_BREAK = "clients break"
    DIFFERS = "differs"
    COSMETIC = "cosmetic"


class Span(NamedTuple):
    """Bytes of an answer, from `start` to before `end`, and the path of their field, as `Topics[0].ErrorCode`."""

    start: int
    end: int
    field: str


class Hurt(NamedTuple):
    """A client that does not work with such an answer, and what happens to it."""

    client: str
    how: str


class Setting(NamedTuple):
    """A setting of the broker that a story needs."""

    name: str
    value: str
    found: str | None
    """The broker's own value. None means that the broker does not report this setting."""
    dynamic: bool
    """Whether it can be changed while the broker runs (`--may-alter`)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one story or probe."""

    kind: str
    """`story` or `probe`."""
    id: str
    """Unique among all stories and probes, for example `join-is-a-barrier`."""
    level: str
    title: str
    state: State
    seconds: float = 0.0
    tries: int = 1
    diff: str = ""
    """How a story went beside how it goes on Kafka, or what is wrong with the answer to a probe."""
    request: str = ""
    """The request before the first difference, as `JoinGroup v9`."""
    request_bytes: bytes = b""
    answer: bytes = b""
    """The frame of the first answer that differs, without its length."""
    wrong: Span | None = None
    severity: Severity | None = None
    kip: str = ""
    """The KIP or the class of Kafka that says what is right."""
    hurts: tuple[Hurt, ...] = ()
    why: str = ""
    """Why it was skipped, or what is to be said beside its state."""
    settings: tuple[Setting, ...] = ()
    """Other settings with which a skipped story would be played."""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    target: str
    """The address as the user gave it."""
    software: str
    """What the broker is, as far as it says so."""
    release: str
    """The release of Kafka that the broker was compared with."""
    muster: str
    """The version of the tool."""
    began: str
    """An ISO time, in UTC."""
    seconds: float
    outcomes: tuple[Outcome, ...]
    left: tuple[str, ...] = ()
    """What was made and could not be deleted, or was changed and could not be put back."""

    def count(self, state: State, level: str | None = None) -> int:
        """The number of outcomes in this state, in all levels or in one."""
        return sum(one.state is state for one in self.outcomes if level in (None, one.level))

    @property
    def exit_status(self) -> int:
        """0: nothing differs; 1: something differs; 2: nothing could be compared."""
        if self.count(State.FAILED):
            return 1
        return 0 if self.count(State.PASSED) + self.count(State.FLAKY) else 2


def by_level(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each level, in the order in which the levels first occur."""
    levels: dict[str, list[Outcome]] = {}
    for one in outcomes:
        levels.setdefault(one.level, []).append(one)
    return levels
