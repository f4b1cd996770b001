"""Scenarios of the disk."""

from __future__ import annotations

from typing import Final

from muster.testcontrol.scenarios.stage import Kind, Scenario


async def disk_full(scenario: Scenario) -> None:
    """Refuse all writes: the disk is full."""
    _refuse(scenario, scenario.parts.disk.FULL, "the disk is full")


async def read_only_disk(scenario: Scenario) -> None:
    """Refuse all writes: the disk is mounted read-only."""
    _refuse(scenario, scenario.parts.disk.READ_ONLY, "the disk is read-only")


def _refuse(scenario: Scenario, error: int, words: str) -> None:
    disk = scenario.parts.disk

    def mend() -> None:
        disk.error = None

    disk.error = error
    scenario.at_end(mend)
    scenario.step(words)


KINDS: Final = (
    Kind("disk-full", "nothing can be written until the scenario ends: no space left on device", disk_full),
    Kind("read-only-disk", "nothing can be written until the scenario ends: read-only file system", read_only_disk),
)
