"""All strategies of Muster, by the names that Kafka gives them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster.assignors.assignor import Assignor
from muster.assignors.range import RangeAssignor, ServerRangeAssignor
from muster.assignors.roundrobin import RoundRobinAssignor
from muster.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from muster.assignors.uniform import UniformAssignor


def _by_name(*assignors: Assignor) -> Mapping[str, Assignor]:
    return MappingProxyType({assignor.name: assignor for assignor in assignors})


CLIENT_ASSIGNORS: Final = _by_name(RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
"""The strategies that the leader of a classic group runs (`partition.assignment.strategy`)."""

SERVER_ASSIGNORS: Final = _by_name(UniformAssignor(), ServerRangeAssignor())
"""The strategies that the server runs for a group of the consumer protocol, KIP-848 (`group.remote.assignor`)."""
