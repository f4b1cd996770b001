"""What a handler knows about a request: the connection, the principal, the client, and the meaning of its version.

This module may not use the node, a shard or a socket. Only this module decides what a version means; each such function
takes the request's version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from muster.coordinator.api.decoded_requests import Decoded
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.unsent import Taken, Unsent
from muster.coordinator.security.authentication import WITHOUT_AUTHENTICATION, Authentication
from muster.coordinator.security.authorizer import KafkaPrincipal
from muster.coordinator.state_machine.interface import Client
from muster.coordinator.topics.cluster_image import Endpoint
from muster.protocol.api import ApiKey

log = structlog.get_logger("muster.api")


class Throttle(Protocol):
    """Counts the requests of one connection while quotas exist (`api.throttled`)."""

    def exempt(self) -> None:
        """Do not count the present request."""

    def max_fetch_bytes(self) -> int:
        """The limit for the answer to one Fetch, in bytes: a larger answer would always exceed the quota."""

    def fetched(self, size: int) -> int:
        """Count a Fetch answer of `size` bytes. Returns how many ms the client must wait for the answer."""

    def change(self, partitions: int) -> None:
        """Count the partitions that the request creates or deletes. Raises `ApiError`."""

    def create(self, partitions: int) -> None:
        """Count the partitions of a topic that is created because a client has named it. Raises `ApiError`."""

    def used(self, used_us: int) -> None:
        """Count the time that a job of the present request used."""


class Channel:
    """One connection, as the handlers see it: the listener, the peer and the end of the connection.

    `listener`: Kafka's listener name. `endpoint`: this node's address in answers on this connection. `peer`: the
    client's address and port, for log lines. `host`: Kafka's clientHost, which is "/" and the address.
    """

    __slots__ = (
        "_end", "_on_close", "authentication", "closed", "endpoint", "host", "large_answer", "large_request",
        "listener", "peer", "software_name", "software_version", "takes_file_parts", "throttle",
    )  # fmt: skip

    def __init__(
        self,
        listener: str,
        endpoint: Endpoint,
        peer: str,
        host: str,
        authentication: Authentication = WITHOUT_AUTHENTICATION,
    ) -> None:
        self.listener = listener
        self.endpoint = endpoint
        self.peer = peer
        self.host = host
        self.authentication = authentication
        self.closed = False
        self.throttle: Throttle | None = None
        """The object that counts the requests while quotas exist; else None."""
        self.large_answer: Taken | None = None
        """The memory of the answer that is being made, if this answer is large."""
        self.large_request: Decoded | None = None
        """The memory of the newest large request."""
        self.takes_file_parts = False
        """Whether an answer that is made at once may have parts of files as records (`log.FilePart`)."""
        self.software_name = ""
        self.software_version = ""
        self._on_close: list[Callable[[], object]] = []
        self._end: Callable[[CloseConnection], object] = _nothing

    def ended_by(self, end: Callable[[CloseConnection], object]) -> None:
        """Set the callback that ends the connection. The connection itself calls this method once."""
        self._end = end

    def end(self, reason: CloseConnection) -> None:
        """End the connection, if a request cannot be refused otherwise (Produce with acks=0). Also call `respond`."""
        self._end(reason)

    def fault(self, error: Exception) -> None:
        """Report a bug in a handler. The bug ends the connection, not the server."""
        log.error("a handler failed", peer=self.peer, exc_info=error)
        self._end(CloseConnection("its request met a bug in the server"))

    def on_close(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` when the connection has ended, perhaps at once. The returned function cancels the call."""
        if self.closed:
            callback()
            return _nothing
        self._on_close.append(callback)

        def cancel() -> None:
            if callback in self._on_close:
                self._on_close.remove(callback)

        return cancel

    def answer_memory(self, unsent: Unsent) -> Taken:
        """The memory of the answer that is being made, until the answer is handed over or the connection ends."""
        if self.large_answer is None:
            self.large_answer = Taken(unsent, self.host)
        return self.large_answer

    def release_answer(self) -> None:
        """Release the memory of the large answer, which was passed on or dropped."""
        taken, self.large_answer = self.large_answer, None
        if taken is not None:
            taken.release()

    def close(self) -> None:
        """Call the `on_close` callbacks. The connection itself calls this method once, at its end."""
        self.closed = True
        self._end = _nothing
        self.release_answer()
        request, self.large_request = self.large_request, None
        if request is not None:
            request.leave()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()


def _nothing(*_: object) -> None:
    pass


class RequestContext:
    """One kind of request on one connection: requests with the same API, version and client id share this object."""

    __slots__ = ("api_key", "api_version", "channel", "client", "endpoint", "host", "listener")

    def __init__(self, channel: Channel, client: Client, api_key: int, api_version: int) -> None:
        self.channel = channel
        self.endpoint = channel.endpoint
        self.host = channel.host
        self.listener = channel.listener
        self.client = client
        self.api_key = api_key
        self.api_version = api_version

    @property
    def principal(self) -> KafkaPrincipal:
        """The principal of the client, as the connection knows it now."""
        return self.channel.authentication.principal


def charge_of(context: RequestContext) -> Callable[[int], object] | None:
    """The function that counts partitions to create or delete, and may refuse them. None means that no quota exists."""
    throttle = context.channel.throttle
    return None if throttle is None else throttle.change


# ---- what depends on the version of a request and not on its message

SPECIAL_TIMESTAMPS: Final[Mapping[int, int]] = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""The first version of ListOffsets that has each special timestamp."""


def knows_timestamp(version: int, timestamp_ms: int) -> bool:
    """Whether ListOffsets may ask for this timestamp."""
    return timestamp_ms >= 0 or SPECIAL_TIMESTAMPS.get(timestamp_ms, version + 1) <= version


def _since(first: int) -> Callable[[int], bool]:
    return lambda version: version >= first


add_partitions_comes_from_broker = _since(4)
"""Brokers send AddPartitionsToTxn, for many transactions, to verify what producers write (KIP-890)."""
end_txn_raises_epoch = _since(5)
"""EndTxn gives the producer the epoch of its next transaction (KIP-890)."""
api_versions_names_software = _since(3)
"""ApiVersions names the client's software, and the name must be valid (KIP-511)."""
api_versions_shows_features_from_zero = _since(4)
"""ApiVersions may list features whose lowest level is 0; older Java clients fail on them (KAFKA-17011)."""
knows_deletion_disabled = _since(3)
"""DeleteTopics knows the error TOPIC_DELETION_DISABLED (KIP-322)."""
describe_knows_group_not_found = _since(6)
"""DescribeGroups answers GROUP_ID_NOT_FOUND for an unknown group, instead of Dead (KIP-1043)."""
features_have_one_error = _since(2)
"""UpdateFeatures has an error for the whole request only. In older versions each feature has a row (KIP-584)."""
fetch_by_topic_id = _since(13)
"""Fetch names topics by id (KIP-516)."""
elections_have_one_error = _since(1)
"""ElectLeaders has an error for the whole request. In older versions each partition has this error (KIP-460)."""
produce_names_leader = _since(10)
"""With NOT_LEADER_OR_FOLLOWER, Produce says where the leader is (KIP-951)."""
fetch_names_leader = _since(16)
"""With an error that means another leader, Fetch says where the leader is (KIP-951)."""
fetch_knows_storage_error = _since(6)
"""Fetch may answer KAFKA_STORAGE_ERROR. With this error, clients of older versions do not try again (KIP-112)."""
join_requires_known_member_id = _since(4)
"""JoinGroup gives a dynamic member without an id a new id with MEMBER_ID_REQUIRED (KIP-394)."""
join_supports_skip_assignment = _since(9)
"""JoinGroup can let a static leader that returned skip the assignment (KIP-814)."""
lists_all_config_resources = _since(1)
"""ListConfigResources asks for all kinds (KIP-1142), not for client metrics only (KIP-714)."""
metadata_by_topic_id = _since(12)
"""Metadata may ask for a topic by its id alone, and answer without a name (KIP-516)."""
offsets_by_topic_id = _since(10)
"""OffsetCommit and OffsetFetch name topics by id (KIP-848)."""
txn_offsets_by_topic_id = _since(6)
"""TxnOffsetCommit names topics by id, and its clients know the errors of KIP-1319."""
produce_by_topic_id = _since(13)
"""Produce names topics by id (KIP-516)."""
share_knows_renewal = _since(2)
"""ShareFetch and ShareAcknowledge may renew acquisition locks (KIP-1222)."""
produce_allows_zstd = _since(7)
"""Produce may carry batches compressed with zstd (KIP-110)."""
sync_names_protocol = _since(5)
"""SyncGroup gives protocol type and name, which must match (KIP-559)."""
produce_adds_partitions = _since(12)
"""Produce adds its partitions to the transaction of its producer (KIP-890)."""
produce_knows_abortable = _since(11)
"""Produce may answer TRANSACTION_ABORTABLE (KIP-890)."""
txn_commit_adds_partitions = _since(5)
"""TxnOffsetCommit adds the partition of the group's offsets to the transaction (KIP-890)."""
txn_commit_knows_abortable = _since(4)
"""TxnOffsetCommit may answer TRANSACTION_ABORTABLE (KIP-890)."""


NO_TRANSACTION_VERSION: Final = 0
NEW_TRANSACTIONS: Final = 2
"""Kafka's TransactionVersion TV_0 and TV_2, as a producer's requests show them."""


def transaction_version(is_new: bool) -> int:
    """The transaction version of a client. `is_new`: the client sends versions of KIP-890."""
    return NEW_TRANSACTIONS if is_new else NO_TRANSACTION_VERSION


_REFUSES_CHANGES: Final[Mapping[int, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}


def refuses_changes(api_key: int, version: int) -> bool:
    """Whether changes above the quota are refused with THROTTLING_QUOTA_EXCEEDED (KIP-599). Otherwise clients wait."""
    return version >= _REFUSES_CHANGES[api_key]
