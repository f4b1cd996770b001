"""The settings of the history. Field names are property names with "_" for "."."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """The settings of the history from the configuration."""

    muster_group_events_enable: bool = True
    """Whether events of groups are written to __group_events."""
    muster_transaction_events_enable: bool = True
    """Whether events of transactional ids are written to __transaction_events."""
