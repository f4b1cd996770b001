"""The server's promises about records and topics, and what a later server may show. `tests.torture.ledger` has offsets.

A request without an answer may have been done or not, from then on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from muster.protocol.errors import ErrorCode


class Records:
    """By partition: the increasing numbers that clients tried to write, and those that were acknowledged."""

    def __init__(self) -> None:
        self.attempted: dict[int, int] = {}
        self.acknowledged: dict[int, dict[int, bool]] = {}
        """The numbers, each with whether it must survive a power cut: some were only promised to be in the page cache.
        """

    def attempt(self, partition: int) -> int:
        """The next number of the partition."""
        self.attempted[partition] = number = self.attempted.get(partition, 0) + 1
        return number

    def acknowledge(self, partition: int, number: int) -> None:
        """Note that the server has acknowledged the number."""
        self.acknowledged.setdefault(partition, {})[number] = False

    def synced(self) -> None:
        """The server has stopped in order: everything that it had is on the disk."""
        for numbers in self.acknowledged.values():
            numbers.update(dict.fromkeys(numbers, True))

    def judge(
        self, partition: int, promised: Mapping[int, bool], found: Sequence[int], *, was_cut: bool
    ) -> Iterable[str]:
        """Judge all records that are `found`. `promised`: the numbers acknowledged before the read. `was_cut`: a power
        cut happened since then. After it, found numbers are on the disk, and missing ones are no longer expected.
        """
        if any(later <= earlier for earlier, later in itertools.pairwise(found)):
            yield f"partition {partition} holds {found[-20:]}: not in the order of writing, or twice"
        if found and found[-1] > self.attempted.get(partition, 0):
            yield f"partition {partition} holds {found[-1]}, which nobody wrote"
        there, known = set(found), self.acknowledged.get(partition, {})
        lost = [number for number in promised if number not in there]
        for number in promised:
            if number in known:  # the judge of an earlier process may have removed it
                known[number] = True
            if number not in there:
                known.pop(number, None)
        owed = [number for number in lost if promised[number] or not was_cut]
        if owed:
            yield f"partition {partition}: {owed[:10]} were acknowledged and are not there"


UNSET: Final = "-1"
"""The value of the setting by the node's own properties."""


class Topics:
    """What is known of each topic, by name."""

    def __init__(self) -> None:
        self.partitions: dict[str, int] = {}
        """The partitions of all topics that were ever requested."""
        self.sure: dict[str, bool] = {}
        """Whether each topic exists; topics whose state is unknown are left out."""
        self.settings: dict[str, set[str]] = {}
        """The possible values of its setting; one value when it is certain."""

    def present(self) -> list[str]:
        """The topics that certainly exist."""
        return [name for name, there in self.sure.items() if there]

    def creating(self, name: str, partitions: int) -> None:
        """Note that a topic is requested."""
        self.partitions[name] = partitions

    def created(self, name: str, error: int) -> None:
        """Note the answer to the request."""
        if error == ErrorCode.NONE:
            self.sure[name] = True

    def deleting(self, name: str) -> None:
        """Note that its deletion is requested."""
        self.sure.pop(name, None)

    def deleted(self, name: str, error: int) -> None:
        """Note the answer to the deletion."""
        if error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self.sure[name] = False

    def setting(self, name: str, value: str) -> None:
        """Note that another value of its setting is requested."""
        self.settings.setdefault(name, {UNSET}).add(value)

    def was_set(self, name: str, value: str, error: int) -> None:
        """Note the answer to the change."""
        if error == ErrorCode.NONE:
            self.settings[name] = {value}

    def judge(self, sure: dict[str, bool], found: dict[str, tuple[int, int]]) -> Iterable[str]:
        """`found`: the number of partitions of each topic by name, and how many of them have no leader."""
        for name, there in sure.items():
            if there and name not in found and self.sure.get(name):
                yield f"the topic {name} was made, and is not there"
            if not there and name in found:
                yield f"the topic {name} was deleted, and is there"
        for name, (partitions, headless) in found.items():
            if name in self.partitions and (partitions != self.partitions[name] or headless):
                yield f"the topic {name} has {partitions} of {self.partitions[name]} partitions, {headless} offline"
