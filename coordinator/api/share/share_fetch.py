"""ShareFetch: records for a member of a share group, and the acknowledgements of earlier ones (KIP-932).

A ShareFetch is a job. The acknowledgements take effect first, and the answer leaves when they are durable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from muster.coordinator.api.context import RequestContext, share_knows_renewal
from muster.coordinator.api.node import PLAIN_ROWS, Node, Respond
from muster.coordinator.api.share.acknowledgements import Acknowledgements, Asked
from muster.coordinator.api.share.requests import MOVED, Hint, Refused, addresses, checked, leader_of
from muster.coordinator.api.share.share_reading import ACQUIRE_MODES, RECORD_LIMIT, Answered, FetchTerms, ShareReading
from muster.coordinator.api.unsent import Taken
from muster.coordinator.runtime.share_partitions.share_partitions import SharePartitions
from muster.coordinator.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Place, SessionContext, SessionRefused
from muster.coordinator.share.sessions import SessionRow as Row
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.share_fetch import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

_ANSWER_BYTES: Final = 20
_TOPIC_BYTES: Final = 18
_PARTITION_BYTES: Final = 30
_ACQUIRED_BYTES: Final = 19
"""The bytes of an answer without the records: the whole answer, each topic, each partition, each row of acquired
records.
"""


def handle_share_fetch(node: Node, context: RequestContext, request: ShareFetchRequest, respond: Respond) -> None:
    """Answer at once, or when enough records are there, or when the longest wait is over."""
    taken = Taken(node.unsent)

    def answer(response: Message | None) -> None:
        try:
            respond(response)
        finally:
            taken.set(0)

    node.run(context, answer, _fetch(node, context, request, taken))


def _fetch(node: Node, context: RequestContext, request: ShareFetchRequest, taken: Taken) -> Job[ShareFetchResponse]:
    try:
        return (yield from _serve(node, context, request, taken))
    except (Refused, SessionRefused) as refused:
        return ShareFetchResponse(error_code=refused.error_code)
    except BaseException:
        # the client no longer waits for the answer
        taken.set(0)
        raise


def _serve(node: Node, context: RequestContext, request: ShareFetchRequest, taken: Taken) -> Job[ShareFetchResponse]:
    shares, group_id, member_id = checked(node, context, request.group_id, request.member_id)
    may_renew = share_knows_renewal(context.api_version)
    is_renewing = may_renew and request.is_renew_ack
    if is_renewing and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        raise Refused(ErrorCode.INVALID_REQUEST)
    has_acknowledgements = any(row.acknowledgement_batches for topic in request.topics for row in topic.partitions)
    rows = yield from _rows(node, request)
    try:
        session = shares.sessions.open(
            group_id,
            member_id,
            request.share_session_epoch,
            rows,
            [Place(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions],
            has_acknowledgements=has_acknowledgements,
        )
    except SessionRefused as refused:
        if refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            yield from _waiting(node, context, request.max_wait_ms)
        raise
    if request.share_session_epoch == INITIAL_EPOCH:
        shares.on_disconnect(group_id, member_id, context.channel.on_close)
    made = Acknowledgements(group_id, member_id, may_renew=may_renew, is_renewing=is_renewing)
    if has_acknowledgements:
        yield from made.making(node, shares, context, _asked(request))
    if request.share_acquire_mode not in ACQUIRE_MODES and session.rows and not is_renewing:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    terms = _terms(node, context, request, shares, group_id, member_id)
    reading = ShareReading(node, context, terms, taken)
    if not is_renewing:
        yield from reading.running(shares, session)
    yield from made.ended()
    response = yield from _answer(node, context, session, reading.answered)
    yield from _add_outcomes(response, made)
    response.acquisition_lock_timeout_ms = shares.config(group_id).partition.lock_ms
    if request.share_session_epoch == FINAL_EPOCH:
        yield from shares.end_session(group_id, member_id)
    return response


def _waiting(node: Node, context: RequestContext, wait_ms: int) -> Job[None]:
    later = PendingResult()

    def end() -> None:
        if not later.is_there:
            later(None)

    clock = node.clock.machine
    timer = clock.call_at(clock.now().mono_ms + max(wait_ms, 0), end)
    forget = context.channel.on_close(end)
    yield later
    timer.cancel()
    forget()


def _rows(node: Node, request: ShareFetchRequest) -> Job[list[Row]]:
    rows: list[Row] = []
    for topic in request.topics:
        found = node.topics.by_id.get(topic.topic_id)
        name = None if found is None else found.name
        for row in topic.partitions:
            rows.append(Row(Place(topic.topic_id, row.partition_index), name))
            if len(rows) > PLAIN_ROWS:
                yield None
    return rows


def _asked(request: ShareFetchRequest) -> Iterator[Asked]:
    for topic in request.topics:
        for row in topic.partitions:
            yield Asked(Place(topic.topic_id, row.partition_index), row.acknowledgement_batches)


def _terms(
    node: Node,
    context: RequestContext,
    request: ShareFetchRequest,
    shares: SharePartitions,
    group_id: str,
    member_id: str,
) -> FetchTerms:
    most_bytes = min(request.max_bytes, node.topics.settings.fetch_max_bytes)
    throttle = context.channel.throttle
    if throttle is not None:
        most_bytes = min(most_bytes, throttle.max_fetch_bytes())
    return FetchTerms(
        group_id,
        member_id,
        request.share_session_epoch,
        request.max_wait_ms,
        min(request.min_bytes, most_bytes),
        most_bytes,
        request.max_records,
        request.batch_size,
        request.share_acquire_mode == RECORD_LIMIT,
        shares.config(group_id).is_committed,
    )


def _answer(
    node: Node, context: RequestContext, session: SessionContext, answered: Sequence[Answered]
) -> Job[ShareFetchResponse]:
    if session.is_refused:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    throttle = context.channel.throttle
    if throttle is not None and throttle.fetched((yield from _size_of(answered))):
        return ShareFetchResponse()  # the records are not sent; they are available again when their locks end
    topics: dict[bytes, list[PartitionData]] = {}
    hints: set[Hint] = set()
    for number, (row, data) in enumerate(answered):
        if number > PLAIN_ROWS:
            yield None
        if data.error_code in MOVED:
            hint = leader_of(node, row.place)
            data.current_leader = LeaderIdAndEpoch(*hint)
            hints.add(hint)
        if session.note_answer(row, has_error=bool(data.error_code), has_records=bool(data.records)):
            topics.setdefault(row.place.topic_id, []).append(data)
    return ShareFetchResponse(
        responses=[ShareFetchableTopicResponse(topic_id, some) for topic_id, some in topics.items()],
        node_endpoints=[NodeEndpoint(*one) for one in addresses(node, context, hints)],
    )


def _size_of(answered: Sequence[Answered]) -> Job[int]:
    """About how many bytes the answer will have, for a quota."""
    size = _ANSWER_BYTES
    topic_id = b""
    for row, data in answered:
        if row.place.topic_id != topic_id:
            topic_id = row.place.topic_id
            size += _TOPIC_BYTES
        size += _PARTITION_BYTES + len(data.records or b"") + _ACQUIRED_BYTES * len(data.acquired_records)
        yield None
    return size


def _add_outcomes(response: ShareFetchResponse, made: Acknowledgements) -> Job[None]:
    """Add the outcomes of the acknowledgements to the rows of their partitions, or as further rows."""
    if not made.outcomes:
        return
    topics = {topic.topic_id: list(topic.partitions) for topic in response.responses}
    by_place = {
        Place(topic.topic_id, row.partition_index): row for topic in response.responses for row in topic.partitions
    }
    for place, (error_code, text) in made.outcomes.items():
        row = by_place.get(place)
        if row is None:
            row = PartitionData(place.partition)
            topics.setdefault(place.topic_id, []).append(row)
        row.acknowledge_error_code, row.acknowledge_error_message = error_code, text
        yield None
    response.responses = [ShareFetchableTopicResponse(topic_id, rows) for topic_id, rows in topics.items()]
