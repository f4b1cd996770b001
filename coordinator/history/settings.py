"""The settings of the history. Field names are property names with "_" for "."."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """What this room takes from the configuration."""

    muster_group_events_enable: bool = True
    """Write what happens in groups to __group_events."""
    muster_transaction_events_enable: bool = True
    """Write what happens to transactional ids to __transaction_events."""
