"""Acknowledgements in ShareFetch and ShareAcknowledge: checks, and the answer for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import PLAIN_ROWS, Node
from muster.coordinator.runtime.share_partitions.share_partitions import SharePartitions
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.share.acknowledge import REJECTED, RENEWED, Acknowledgement, Refusal
from muster.coordinator.share.sessions import Place
from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode, error_message

HIGHEST_TYPE: Final = RENEWED
HIGHEST_OTHER_TYPE: Final = REJECTED
"""The highest type of acknowledgement, with and without renewal (KIP-1222)."""
ACKNOWLEDGED: Final = (ErrorCode.NONE, None)

Outcome = tuple[int, str | None]
"""The error code and the text for a partition."""


class Batch(Protocol):
    """Acknowledgements of neighbouring records, in either request."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


class Asked(NamedTuple):
    """The acknowledgements of one partition."""

    place: Place
    batches: Sequence[Batch]


class Acknowledgements:
    """The acknowledgements of one request. `outcomes`: the answer of each partition, complete after `ended`."""

    def __init__(self, group_id: str, member_id: str, *, may_renew: bool, is_renewing: bool) -> None:
        """`may_renew`: the version of the API knows renewal. `is_renewing`: the request says that it renews locks."""
        self._group_id = group_id
        self._member_id = member_id
        self._most = HIGHEST_TYPE if may_renew else HIGHEST_OTHER_TYPE
        self._is_renewing = is_renewing
        self.outcomes: dict[Place, Outcome] = {}
        self._pending = 0
        self._rows = 0
        """How many rows were handled since the last step."""
        self._ended: PendingResult | None = None

    def making(self, node: Node, shares: SharePartitions, context: RequestContext, asked: Iterable[Asked]) -> Job[None]:
        """Check all acknowledgements, and pass them to the share partitions."""
        empty: list[Place] = []
        has_made = False
        by_place: dict[Place, Sequence[Batch]] = {}
        for number, one in enumerate(asked):
            by_place[one.place] = one.batches
            if number > PLAIN_ROWS:
                yield None
        for number, (place, batches) in enumerate(by_place.items()):
            if number > PLAIN_ROWS:
                yield None
            error_code = yield from self._fault(node, context, place, batches)
            if error_code:
                self.outcomes[place] = error_code, None
            elif not batches:
                empty.append(place)
            else:
                has_made = True
                yield from self._make(shares, place, batches)
        if has_made:  # as on Kafka, partitions without acknowledgements are only named beside others
            self.outcomes.update(dict.fromkeys(empty, ACKNOWLEDGED))

    def _fault(self, node: Node, context: RequestContext, place: Place, batches: Sequence[Batch]) -> Job[int]:
        topic = node.topics.by_id.get(place.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        end = -1
        for number, batch in enumerate(batches):
            if number and not number % PLAIN_ROWS:
                yield None
            if batch.first_offset < end or not self._is_valid(batch):
                return ErrorCode.INVALID_REQUEST
            end = batch.last_offset
        if not node.authorizer.allows(context, Operation.READ, ResourceType.TOPIC, topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not 0 <= place.partition < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def _is_valid(self, batch: Batch) -> bool:
        types = batch.acknowledge_types
        if batch.first_offset > batch.last_offset or not types:
            return False
        if len(types) > 1 and batch.last_offset - batch.first_offset != len(types) - 1:
            return False
        return min(types) >= 0 and max(types) <= self._most and (RENEWED not in types or self._is_renewing)

    def _make(self, shares: SharePartitions, place: Place, batches: Sequence[Batch]) -> Job[None]:
        share = shares.find(StateKey(self._group_id, *place))
        if share is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.outcomes[place] = code, error_message(code)
            return
        some: list[Acknowledgement] = []
        records = 0
        for one in batches:
            some.append(Acknowledgement(one.first_offset, one.last_offset, one.acknowledge_types))
            records += len(one.acknowledge_types)
            self._rows += len(one.acknowledge_types)
            if self._rows > PLAIN_ROWS:
                self._rows = 0
                yield None
        is_large = records > PLAIN_ROWS or share.core.has_many_runs
        self._pending += 1
        write = share.acknowledge(self._member_id, some, partial(self._done, place))
        try:
            if is_large:
                yield None  # to make a change of many rows, and to write it, takes two iterations
        finally:
            write()  # also for a client that is gone

    def _done(self, place: Place, refusal: Refusal | None) -> None:
        self.outcomes[place] = ACKNOWLEDGED if refusal is None else (refusal.error_code, refusal.message)
        self._pending -= 1
        if not self._pending and self._ended is not None:
            self._ended(None)

    def ended(self) -> Job[None]:
        """Wait until every acknowledgement is durable, or refused."""
        if self._pending:
            self._ended = PendingResult()
            yield self._ended
