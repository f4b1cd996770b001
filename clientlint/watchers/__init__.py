"""The watchers. `all_watchers` makes one of each."""

from __future__ import annotations

from muster.clientlint.watcher import Watcher
from muster.clientlint.watchers.classic_members import ClassicMembers
from muster.clientlint.watchers.consumer_members import ConsumerMembers
from muster.clientlint.watchers.coordinators import Lookups
from muster.clientlint.watchers.fetch_sessions import FetchSessions
from muster.clientlint.watchers.given_ids import GivenIds
from muster.clientlint.watchers.messages import Messages
from muster.clientlint.watchers.offset_resets import OffsetResets
from muster.clientlint.watchers.pace import MetadataRequests, Retries, Throttles
from muster.clientlint.watchers.reconnects import Reconnects
from muster.clientlint.watchers.transactions import Transactions


def all_watchers() -> list[Watcher]:
    """New watchers for all rules."""
    return [
        ClassicMembers(),
        GivenIds(),
        ConsumerMembers(),
        OffsetResets(),
        FetchSessions(),
        Lookups(),
        Throttles(),
        Retries(),
        Reconnects(),
        MetadataRequests(),
        Messages(),
        Transactions(),
    ]
