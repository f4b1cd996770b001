"""Fetch: records as the logs have them, at once or when enough of them exist (KIP-74, KIP-227, KIP-516).

`fetch_rows` reads the rows, and `topics.fetch_sessions` has the sessions. No record is decoded. A Fetch is a job, since
it may wait for records. The job may be interrupted after `PLAIN_ROWS` rows, and when records were read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.coordinator.api.context import RequestContext, fetch_by_topic_id
from muster.coordinator.api.node import PLAIN_ROWS, Node, Respond
from muster.coordinator.api.records.fetch_rows import MOVED, FetchTerms, RowsRead, read_rows
from muster.coordinator.api.unsent import Taken
from muster.coordinator.system.jobs import Job, OffloadedWork, PendingResult
from muster.coordinator.topics.fetch_sessions import FetchContext, FetchRow, Key, may_have_session
from muster.coordinator.topics.fetch_wait import WATCHED_AT_ONCE, FetchWait
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message, take_apart
from muster.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

READ_COMMITTED = 1
_ANSWER_BYTES = 20
_TOPIC_BYTES = 2
_PARTITION_BYTES = 39
"""The bytes of an answer without the records: for the whole answer, each topic, and each partition."""


def handle_fetch(node: Node, context: RequestContext, request: FetchRequest, respond: Respond) -> None:
    """Answer at once if records suffice, if a row has an error, or if no wait is possible. Else park the request."""
    taken = Taken(node.unsent)

    def answer(response: Message | None) -> None:
        if node.job_queue.is_large and not context.channel.closed:
            context.channel.release_answer()
            context.channel.large_answer = taken  # the memory of the answer is released when the answer was encoded
            respond(response)
            return
        try:
            respond(response)
        finally:
            taken.set(0)

    node.run(context, answer, _fetch(node, context, request, taken))


def _fetch(node: Node, context: RequestContext, request: FetchRequest, taken: Taken) -> Job[FetchResponse]:
    try:
        return (yield from _read_and_answer(node, context, request, taken))
    except BaseException:
        # the client no longer waits for the answer
        taken.set(0)
        raise


def _read_and_answer(node: Node, context: RequestContext, request: FetchRequest, taken: Taken) -> Job[FetchResponse]:
    by_id = fetch_by_topic_id(context.api_version)
    asked = yield from _rows(request)
    now_ms = node.clock.now().mono_ms
    fetch = node.sessions.open(request.session_id, request.session_epoch, asked, _forgotten(request), by_id, now_ms)
    if fetch.error_code:
        return FetchResponse(error_code=fetch.error_code)
    most_bytes = min(request.max_bytes, node.topics.settings.fetch_max_bytes)
    throttle = context.channel.throttle
    if throttle is not None:
        if _is_from_follower(request):
            throttle.exempt()
        else:
            most_bytes = min(most_bytes, throttle.max_fetch_bytes())
    committed = request.isolation_level == READ_COMMITTED
    room = node.unsent.room()
    min_bytes = min(request.min_bytes, most_bytes, room or most_bytes)
    terms = FetchTerms(context.api_version, most_bytes, committed, _is_from_follower(request))
    read = yield from read_rows(node, context, fetch.rows, terms, taken)
    if request.max_wait_ms <= 0 or read.bytes >= min_bytes or read.failed or not read.partitions:
        for log, base_offset in read.absent:
            log.fetch_segment(base_offset, lambda _: None)  # the client will ask again
        return (yield from _answer(node, context, fetch, read, by_id))
    partitions, available, absent = read.partitions, read.bytes, read.absent
    # the records are read again after the wait, so that they take no memory during it
    del read
    taken.set(0)
    later = PendingResult()
    max_wait_ms = request.max_wait_ms
    later_ones: Sequence[Partition] = ()
    if len(partitions) > WATCHED_AT_ONCE:
        partitions, later_ones = partitions[:WATCHED_AT_ONCE], partitions[WATCHED_AT_ONCE:]
    wait = FetchWait(
        node.clock.machine,
        partitions,
        min_bytes,
        available,
        max_wait_ms,
        committed,
        lambda: later(None),
        node.run_behind,
    )

    def give_up() -> None:
        wait.cancel()
        later(None)  # the job ends normally and keeps nothing

    forget = context.channel.on_close(give_up)
    fetches = [log.fetch_segment(base_offset, lambda _: wait.finish()) for log, base_offset in absent]
    if later_ones:
        fetches.append(_count(node, context, len(fetch.rows), wait))
    try:
        if later_ones:
            yield from wait.watching(later_ones)
            if request.topics:
                yield OffloadedWork(lambda: take_apart(request))  # `fetch` has the rows of the request
        yield later
    finally:
        for no_more in fetches:
            no_more()
    forget()
    if fetch.overtaken():
        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    read = yield from read_rows(node, context, fetch.rows, terms, taken)
    return (yield from _answer(node, context, fetch, read, by_id))


def _count(node: Node, context: RequestContext, rows: int, wait: FetchWait) -> Callable[[], object]:
    """Count the memory of a waiting Fetch, until the returned function is called. The wait ends if memory is needed."""
    requests = node.decoded_requests
    decoded = context.channel.large_request
    if decoded is not None and decoded.bytes:
        return requests.park(decoded, wait.finish)
    counted = requests.count(rows, context.channel.host)
    no_more = requests.park(counted, wait.finish)

    def release() -> None:
        no_more()
        counted.release()

    return release


def _is_from_follower(request: FetchRequest) -> bool:
    """Whether a broker asks for a replica. Consumers have replica id -1 or -2 (before version 15 in another field)."""
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)


def _rows(request: FetchRequest) -> Job[list[FetchRow]]:
    rows: dict[Key, FetchRow] = {}
    for number, topic in enumerate(request.topics):
        for place, wanted in enumerate(topic.partitions):
            key = (topic.topic, topic.topic_id, wanted.partition)
            rows[key] = FetchRow(
                key,
                wanted.fetch_offset,
                wanted.partition_max_bytes,
                wanted.current_leader_epoch,
                wanted.last_fetched_epoch,
            )
            # Places are counted, not rows: a request may name one partition many times.
            if place > PLAIN_ROWS:
                yield None
        if number > PLAIN_ROWS:
            yield None
    return list(rows.values())


def _forgotten(request: FetchRequest) -> list[Key]:
    return [(t.topic, t.topic_id, index) for t in request.forgotten_topics_data for index in t.partitions]


def _answer(
    node: Node, context: RequestContext, fetch: FetchContext, read: RowsRead, by_id: bool
) -> Job[FetchResponse]:
    session_id = fetch.session_id
    results = read.results
    throttle = context.channel.throttle
    if throttle is not None:
        size = yield from _size_of(fetch, results, context.api_version)
        if throttle.fetched(size):
            return FetchResponse(session_id=session_id)  # the records are not sent; the client will ask again
    if fetch.wants_session and may_have_session(len(results)):
        in_session = [row for row, _ in results]
        session_id = node.sessions.create(in_session, by_id, node.clock.now().mono_ms)
    if session_id:
        results = yield from _changed_rows(fetch, results)
    response = FetchResponse(session_id=session_id, responses=(yield from _by_topic(results)))
    moved_to = set[int]()
    if read.failed:
        for _, data in results:
            if data.error_code in MOVED and data.current_leader:
                moved_to.add(data.current_leader.leader_id)
            yield None
    if moved_to:
        response.node_endpoints = [
            NodeEndpoint(broker.broker_id, host, port, broker.rack)
            for broker, (host, port) in node.cluster.reachable(context)
            if broker.broker_id in moved_to
        ]
    return response


def _size_of(fetch: FetchContext, results: Sequence[tuple[FetchRow, PartitionData]], version: int) -> Job[int]:
    """About how many bytes the answer will have. A quota counts these bytes before the answer is sent."""
    by_id = fetch_by_topic_id(version)
    size = _ANSWER_BYTES
    last: tuple[str, bytes] | None = None
    for row, data in results:
        if fetch.incremental and not (data.records or data.error_code):
            continue
        name, topic_id, _ = row.key
        if (name, topic_id) != last:
            last = name, topic_id
            size += _TOPIC_BYTES + (len(topic_id) if by_id else len(name))
        size += _PARTITION_BYTES + len(data.records or b"")
        yield None
    return size


def _changed_rows(
    fetch: FetchContext, results: Sequence[tuple[FetchRow, PartitionData]]
) -> Job[list[tuple[FetchRow, PartitionData]]]:
    """The rows of an answer in a session. The first answer has all rows, later answers have the changed rows."""
    changed, many = [], len(results) > PLAIN_ROWS
    for row, data in results:
        worth = bool(data.records) or data.diverging_epoch is not None
        news = row.note_answer(data.error_code, data.high_watermark, data.log_start_offset, worth)
        if news or not fetch.incremental:
            changed.append((row, data))
            if data.records:
                fetch.note_records(row)
        if many:
            yield None
    return changed


def _by_topic(results: Sequence[tuple[FetchRow, PartitionData]]) -> Job[list[FetchableTopicResponse]]:
    topics: list[FetchableTopicResponse] = []
    partitions: list[PartitionData] = []
    last: tuple[str, bytes] | None = None
    many = len(results) > PLAIN_ROWS
    for row, data in results:
        name, topic_id, _ = row.key
        if (name, topic_id) != last:
            partitions = []
            topics.append(FetchableTopicResponse(name, topic_id, partitions))
            last = (name, topic_id)
        partitions.append(data)
        if many:
            yield None
    return topics
