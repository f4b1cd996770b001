"""What the server has promised of records and topics, and what a later one may show. Offsets: `tests.torture.ledger`.

What was asked for and not answered may be there or not, from then on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from muster.protocol.errors import ErrorCode


class Records:
    """By partition: the numbers that somebody tried to write, growing, and those that were acknowledged."""

    def __init__(self) -> None:
        self.attempted: dict[int, int] = {}
        self.acknowledged: dict[int, dict[int, bool]] = {}
        """The numbers, and of each whether it has to outlive a power cut: the page cache is all that was promised."""

    def attempt(self, partition: int) -> int:
        """The next number there."""
        self.attempted[partition] = number = self.attempted.get(partition, 0) + 1
        return number

    def acknowledge(self, partition: int, number: int) -> None:
        """The server said that it has it."""
        self.acknowledged.setdefault(partition, {})[number] = False

    def synced(self) -> None:
        """The server has stopped in good order: all that it had is on the disk."""
        for numbers in self.acknowledged.values():
            numbers.update(dict.fromkeys(numbers, True))

    def judge(
        self, partition: int, promised: Mapping[int, bool], found: Sequence[int], *, was_cut: bool
    ) -> Iterable[str]:
        """`found`: all that is there; `promised`: what had been acknowledged before it was read; `was_cut`: the power
        went since then. What is there then has been read from the disk, and what is not is owed no longer.
        """
        if any(later <= earlier for earlier, later in itertools.pairwise(found)):
            yield f"partition {partition} holds {found[-20:]}: not in the order of writing, or twice"
        if found and found[-1] > self.attempted.get(partition, 0):
            yield f"partition {partition} holds {found[-1]}, which nobody wrote"
        there, known = set(found), self.acknowledged.get(partition, {})
        lost = [number for number in promised if number not in there]
        for number in promised:
            if number in known:  # the judge of an earlier process may have been here
                known[number] = True
            if number not in there:
                known.pop(number, None)
        owed = [number for number in lost if promised[number] or not was_cut]
        if owed:
            yield f"partition {partition}: {owed[:10]} were acknowledged and are not there"


UNSET: Final = "-1"
"""The value that the setting has by the node's own properties."""


class Topics:
    """By name: what is known of each topic."""

    def __init__(self) -> None:
        self.partitions: dict[str, int] = {}
        """Of those that were asked for, ever."""
        self.sure: dict[str, bool] = {}
        """Whether it is there; those of which nobody knows are not in it."""
        self.settings: dict[str, set[str]] = {}
        """The values that its setting may have; one when it is sure."""

    def present(self) -> list[str]:
        """Those that are surely there."""
        return [name for name, there in self.sure.items() if there]

    def creating(self, name: str, partitions: int) -> None:
        """It is asked for."""
        self.partitions[name] = partitions

    def created(self, name: str, error: int) -> None:
        """The answer to that."""
        if error == ErrorCode.NONE:
            self.sure[name] = True

    def deleting(self, name: str) -> None:
        """Its end is asked for."""
        self.sure.pop(name, None)

    def deleted(self, name: str, error: int) -> None:
        """The answer to that."""
        if error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self.sure[name] = False

    def setting(self, name: str, value: str) -> None:
        """Its setting is to be another."""
        self.settings.setdefault(name, {UNSET}).add(value)

    def was_set(self, name: str, value: str, error: int) -> None:
        """The answer to that."""
        if error == ErrorCode.NONE:
            self.settings[name] = {value}

    def judge(self, sure: dict[str, bool], found: dict[str, tuple[int, int]]) -> Iterable[str]:
        """`found`: by name, how many partitions there are and how many of them have no leader."""
        for name, there in sure.items():
            if there and name not in found and self.sure.get(name):
                yield f"the topic {name} was made, and is not there"
            if not there and name in found:
                yield f"the topic {name} was deleted, and is there"
        for name, (partitions, headless) in found.items():
            if name in self.partitions and (partitions != self.partitions[name] or headless):
                yield f"the topic {name} has {partitions} of {self.partitions[name]} partitions, {headless} offline"
