"""Fetch: records as the logs have them, at once or when enough of them exist (KIP-74, KIP-227, KIP-516).

`fetch_rows` reads the rows, and `topics.fetch_sessions` has the sessions. No record is decoded. A Fetch of few rows is
answered within the call of its handler. A Fetch that waits for records, or has many rows, is a job. The job may be
interrupted after `PLAIN_ROWS` rows, and when records were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from muster.coordinator.api.context import RequestContext, fetch_by_topic_id
from muster.coordinator.api.node import PLAIN_ROWS, Node, Respond, parts
from muster.coordinator.api.records.fetch_rows import MOVED, FetchTerms, Result, RowsReader, reading
from muster.coordinator.api.unsent import Taken
from muster.coordinator.system.jobs import Job, OffloadedWork, PendingResult
from muster.coordinator.topics.fetch_sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchContext,
    FetchRow,
    Key,
    may_have_session,
)
from muster.coordinator.topics.fetch_wait import WATCHED_AT_ONCE, FetchWait
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message, take_apart
from muster.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    NodeEndpoint,
    PartitionData,
)

READ_COMMITTED = 1
PLAIN_BYTES: Final = 1 << 20
"""When this many bytes were read, a job reads the other rows."""
_ANSWER_BYTES = 20
_TOPIC_BYTES = 2
_PARTITION_BYTES = 39
"""The bytes of an answer without the records: for the whole answer, each topic, and each partition."""


def handle_fetch(node: Node, context: RequestContext, request: FetchRequest, respond: Respond) -> FetchResponse | None:
    """Answer at once if records suffice, if a row has an error, or if no wait is possible. Else park the request."""
    one = OneFetch(node, context, request)
    reader = rest = None
    if context.channel.throttle is None and node.job_queue.has_time and _has_few_rows(request):
        one.open(_rows_of(request.topics))
        reader, rest = one.read_plainly()
        if rest is None and not one.must_wait(reader):
            if reader.absent:
                one.fetch_absent(reader)
            response = one.answer(reader)
            one.taken.set(0)
            return response
        reader.copy()
    node.run(context, one.delivered_to(respond), one.job(reader, rest))
    return None


class OneFetch:
    """One Fetch request while it is answered. `taken`: the memory of the answer. `fetch`: how it is served."""

    __slots__ = ("_by_id", "_context", "_min_bytes", "_node", "_request", "_terms", "fetch", "taken")

    fetch: FetchContext

    def __init__(self, node: Node, context: RequestContext, request: FetchRequest) -> None:
        self._node = node
        self._context = context
        self._request = request
        self._by_id = fetch_by_topic_id(context.api_version)
        self.taken = Taken(node.unsent)

    def open(self, rows: Sequence[FetchRow]) -> None:
        """Find the session of the request. `rows`: the rows of the request."""
        node, request, context = self._node, self._request, self._context
        session_id, epoch = request.session_id, request.session_epoch
        if epoch == FINAL_EPOCH and session_id == NO_SESSION:
            self.fetch = FetchContext(rows)  # as `FetchSessions.open` makes it
        else:
            now_ms = node.clock.mono_ms()
            self.fetch = node.sessions.open(session_id, epoch, rows, _forgotten(request), self._by_id, now_ms)
        is_from_follower = _is_from_follower(request)
        most_bytes = min(request.max_bytes, node.topics.settings.fetch_max_bytes)
        throttle = context.channel.throttle
        if throttle is not None:
            if is_from_follower:
                throttle.exempt()
            else:
                most_bytes = min(most_bytes, throttle.max_fetch_bytes())
        self._min_bytes = min_bytes = min(request.min_bytes, most_bytes)
        if min_bytes > 1:
            self._min_bytes = min(min_bytes, node.unsent.room() or most_bytes)
        committed = request.isolation_level == READ_COMMITTED
        self._terms = FetchTerms(context.api_version, most_bytes, committed, is_from_follower)

    def read_plainly(self) -> tuple[RowsReader, Job[None] | None]:
        """Read few rows. The job reads the others: many rows, rows behind many bytes, or a row that needs a job."""
        reader, rows = self._reader(), self.fetch.rows
        if self._context.channel.takes_file_parts:
            reader.reads = Partition.read_for_socket
        if len(rows) > PLAIN_ROWS:
            return reader, reading(reader, rows)
        for number, row in enumerate(rows):
            if reader.bytes >= PLAIN_BYTES:
                return reader, reading(reader, rows[number:])
            rest = reader.read(row)
            if rest is not None:
                return reader, _then(rest, reading(reader, rows[number + 1 :]))
        reader.end()
        return reader, None

    def _reader(self) -> RowsReader:
        return RowsReader(self._node, self._context, self._terms, self.taken)

    def must_wait(self, reader: RowsReader) -> bool:
        """Whether the answer waits for more records than were read."""
        is_enough = reader.bytes >= self._min_bytes or reader.failed or not reader.partitions
        return not is_enough and self._request.max_wait_ms > 0

    def answer(self, reader: RowsReader) -> FetchResponse:
        """The answer with the few rows that were read."""
        fetch = self.fetch
        if fetch.error_code:
            return FetchResponse(error_code=fetch.error_code)
        results = reader.results
        session_id = self._session_id(results)
        if session_id:
            results = _changed_rows(fetch, results)
        topics: list[FetchableTopicResponse] = []
        _add_by_topic(topics, results)
        response = FetchResponse(session_id=session_id, responses=topics)
        if reader.failed:
            response.node_endpoints = self._endpoints(_moved_to(results))
        return response

    def delivered_to(self, respond: Respond) -> Callable[[Message | None], None]:
        """The function that passes on the answer of the job, and then releases its memory."""
        node, channel, taken = self._node, self._context.channel, self.taken

        def answer(response: Message | None) -> None:
            if node.job_queue.is_large and not channel.closed:
                channel.release_answer()
                channel.large_answer = taken  # the memory of the answer is released when the answer was encoded
                respond(response)
                return
            try:
                respond(response)
            finally:
                taken.set(0)

        return answer

    def job(self, reader: RowsReader | None, rest: Job[None] | None) -> Job[FetchResponse]:
        """A job that reads, waits and answers. `reader`: has read some rows already, and `rest` reads the others."""
        try:
            if reader is None:
                request = self._request
                self.open(_rows_of(request.topics) if _has_few_rows(request) else (yield from _rows(request)))
                reader = self._reader()
                rest = reading(reader, self.fetch.rows)
            if rest is not None:
                yield from rest
                reader.end()
            if not self.must_wait(reader):
                self.fetch_absent(reader)
                return (yield from self._answering(reader))
            wait = self._wait(reader)
            del reader
            if not (yield from wait):
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            reader = self._reader()
            yield from reading(reader, self.fetch.rows)
            reader.end()
            return (yield from self._answering(reader))
        except BaseException:
            # the client no longer waits for the answer
            self.taken.set(0)
            raise

    def fetch_absent(self, reader: RowsReader) -> None:
        """Fetch the segments that the local replica does not have yet."""
        for log, base_offset in reader.absent:
            log.fetch_segment(base_offset, lambda _: None)  # the client will ask again

    def _wait(self, reader: RowsReader) -> Job[bool]:
        """Wait for more records. False: the session was used meanwhile.

        The records are read again after the wait, so that they take no memory during it.
        """
        node, context, request = self._node, self._context, self._request
        partitions, available, absent = reader.partitions, reader.bytes, reader.absent
        del reader
        self.taken.set(0)
        later = PendingResult()
        later_ones: Sequence[Partition] = ()
        if len(partitions) > WATCHED_AT_ONCE:
            partitions, later_ones = partitions[:WATCHED_AT_ONCE], partitions[WATCHED_AT_ONCE:]
        wait = FetchWait(
            node.clock.machine,
            partitions,
            self._min_bytes,
            available,
            request.max_wait_ms,
            self._terms.committed,
            lambda: later(None),
            node.run_behind,
        )

        def give_up() -> None:
            wait.cancel()
            later(None)  # the job ends normally and keeps nothing

        forget = context.channel.on_close(give_up)
        fetches = [log.fetch_segment(base_offset, lambda _: wait.finish()) for log, base_offset in absent]
        if later_ones:
            fetches.append(_count(node, context, len(self.fetch.rows), wait))
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
        return not self.fetch.overtaken()

    def _answering(self, reader: RowsReader) -> Job[FetchResponse]:
        """A job that makes the answer with the rows that were read, which may be many."""
        fetch, results = self.fetch, reader.results
        throttle = self._context.channel.throttle
        if throttle is not None and not fetch.error_code:
            size = yield from _size_of(fetch, results, self._context.api_version)
            if throttle.fetched(size):
                # the records are not sent; the client will ask again
                return FetchResponse(session_id=fetch.session_id)
        if len(results) <= PLAIN_ROWS:
            return self.answer(reader)
        session_id = self._session_id(results)
        if session_id:
            changed: list[Result] = []
            for some in parts(results):
                changed += _changed_rows(fetch, some)
                yield None
            results = changed
        topics: list[FetchableTopicResponse] = []
        moved_to: set[int] = set()
        for some in parts(results):
            _add_by_topic(topics, some)
            if reader.failed:
                moved_to |= _moved_to(some)
            yield None
        return FetchResponse(session_id=session_id, responses=topics, node_endpoints=self._endpoints(moved_to))

    def _session_id(self, results: Sequence[Result]) -> int:
        """The session for the answer, which is made if the request wants one."""
        fetch, node = self.fetch, self._node
        if fetch.wants_session and may_have_session(len(results)):
            return node.sessions.create([row for row, _ in results], self._by_id, node.clock.mono_ms())
        return fetch.session_id

    def _endpoints(self, broker_ids: set[int]) -> Sequence[NodeEndpoint]:
        if not broker_ids:
            return ()
        return [
            NodeEndpoint(broker.broker_id, host, port, broker.rack)
            for broker, (host, port) in self._node.cluster.reachable(self._context)
            if broker.broker_id in broker_ids
        ]


def _then(first: Job[None], second: Job[None]) -> Job[None]:
    yield from first
    yield from second


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


def _has_few_rows(request: FetchRequest) -> bool:
    topics = request.topics
    if len(topics) == 1:
        return len(topics[0].partitions) <= PLAIN_ROWS
    return len(topics) <= PLAIN_ROWS and sum([len(topic.partitions) for topic in topics]) <= PLAIN_ROWS


def _rows_of(topics: Iterable[FetchTopic]) -> list[FetchRow]:
    """The rows of a request, one for each partition."""
    rows: dict[Key, FetchRow] = {}
    for topic in topics:
        _add_rows(rows, topic, topic.partitions)
    return list(rows.values())


def _rows(request: FetchRequest) -> Job[list[FetchRow]]:
    rows: dict[Key, FetchRow] = {}
    for topic in request.topics:
        for some in parts(topic.partitions):
            _add_rows(rows, topic, some)
            yield None
    return list(rows.values())


def _add_rows(rows: dict[Key, FetchRow], topic: FetchTopic, partitions: Iterable[FetchPartition]) -> None:
    name, topic_id = topic.topic, topic.topic_id
    for wanted in partitions:
        key = (name, topic_id, wanted.partition)
        rows[key] = FetchRow(
            key,
            wanted.fetch_offset,
            wanted.partition_max_bytes,
            wanted.current_leader_epoch,
            wanted.last_fetched_epoch,
        )


def _forgotten(request: FetchRequest) -> list[Key]:
    return [(t.topic, t.topic_id, index) for t in request.forgotten_topics_data for index in t.partitions]


def _size_of(fetch: FetchContext, results: Sequence[Result], version: int) -> Job[int]:
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


def _changed_rows(fetch: FetchContext, results: Sequence[Result]) -> list[Result]:
    """The rows of an answer in a session. The first answer has all rows, later answers have the changed rows."""
    changed = []
    for row, data in results:
        worth = bool(data.records) or data.diverging_epoch is not None
        news = row.note_answer(data.error_code, data.high_watermark, data.log_start_offset, worth)
        if news or not fetch.incremental:
            changed.append((row, data))
            if data.records:
                fetch.note_records(row)
    return changed


def _add_by_topic(topics: list[FetchableTopicResponse], results: Sequence[Result]) -> None:
    """Add rows to the topics of an answer. Neighbouring rows of a topic are in one topic."""
    last = topics[-1] if topics else None
    for row, data in results:
        name, topic_id, _ = row.key
        if last is None or last.topic != name or last.topic_id != topic_id:
            last = FetchableTopicResponse(name, topic_id, [])
            topics.append(last)
        cast(list[PartitionData], last.partitions).append(data)


def _moved_to(results: Sequence[Result]) -> set[int]:
    """The brokers that lead partitions of these rows now."""
    return {data.current_leader.leader_id for _, data in results if data.error_code in MOVED and data.current_leader}
