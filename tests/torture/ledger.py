"""What was requested and what was acknowledged, kept outside the server: it judges what the server remembers."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """One offset that a client commits."""

    group: str
    topic: str
    partition: int


class Ledger:
    """Each place is committed by one client only, with numbers that grow by one."""

    def __init__(self) -> None:
        self.attempted: dict[Place, int] = {}
        self.acknowledged: dict[Place, int] = {}
        self.acknowledgements = 0
        self.faults: list[str] = []
        """The violations, as sentences."""

    def attempt(self, place: Place) -> int:
        """The next number to commit there."""
        self.attempted[place] = number = self.attempted.get(place, 0) + 1
        return number

    def acknowledge(self, place: Place, number: int) -> None:
        """Note that the server has acknowledged the number."""
        self.acknowledged[place] = number
        self.acknowledgements += 1

    def judge(self, acknowledged: dict[Place, int], found: dict[Place, int]) -> None:
        """Judge `found`: a server that was asked after `acknowledged` had been acknowledged shows it."""
        for place, number in acknowledged.items():
            shown = found.get(place)
            if shown is None:
                self.faults.append(f"{place}: {number} was acknowledged, nothing is there")
            elif shown < number:
                self.faults.append(f"{place}: {number} was acknowledged, {shown} is there")
            elif shown > self.attempted[place]:
                self.faults.append(f"{place}: {shown} is there, which nobody committed")
