"""The APIs that this node serves (`SERVED`), and the facts about a request before its body is decoded (`Route`).

An API outside of `SERVED` is neither advertised nor served. Version ranges are exactly those of Kafka 4.4.0. A
handler's module is imported at the first request of its API. So a start does not load rarely used APIs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.layers import Answer, CloseConnection
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.system.lazy_import import lazy
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.message import MalformedMessage, Message

if TYPE_CHECKING:  # `lazy` loads these modules; these imports are for import-linter
    from muster.coordinator.api import client_quotas, share_group_state, telemetry  # noqa: F401  # for `lazy`
    from muster.coordinator.api.cluster import (  # noqa: F401  # for `lazy`
        api_versions,
        describe_cluster,
        features,
        find_coordinator,
        leaders,
        log_dirs,
        metadata,
        quorum,
    )
    from muster.coordinator.api.configs import alter_configs, describe_configs  # noqa: F401  # for `lazy`
    from muster.coordinator.api.groups import (  # noqa: F401  # for `lazy`
        administration,
        consumer_groups,
        membership,
        offset_commit,
        offset_fetch,
        share_groups,
        share_offsets,
        streams_groups,
    )
    from muster.coordinator.api.records import fetch, offsets, produce  # noqa: F401  # for `lazy`
    from muster.coordinator.api.security import acls, delegation_tokens, sasl, scram_credentials  # noqa: F401  # for `lazy`
    from muster.coordinator.api.share import share_acknowledge, share_fetch  # noqa: F401  # for `lazy`
    from muster.coordinator.api.topics import create_topics, delete_topics, describe_topic_partitions  # noqa: F401  # for `lazy`
    from muster.coordinator.api.transactions import administration as _  # noqa: F401  # for `lazy`
    from muster.coordinator.api.transactions import producers, txn_offset_commit  # noqa: F401  # for `lazy`

Handler = Callable[[Node, RequestContext, Any, Respond], Message | None]
"""A function (node, context, request, respond). A handler returns the response, in the newest shape, and does not call
`respond`. Or it returns None, and calls `respond` once, now or later.
"""


class ServedApi(NamedTuple):
    """One API: the advertised versions, the first version that is really served, and the module of the handler."""

    key: int
    min_version: int
    max_version: int
    module: str
    served_from: int

    def serves(self, version: int) -> bool:
        """Whether the node answers requests of this version."""
        return self.served_from <= version <= self.max_version


def _api(key: int, min_version: int, max_version: int, module: str, served_from: int | None = None) -> ServedApi:
    return ServedApi(key, min_version, max_version, module, min_version if served_from is None else served_from)


_TABLE = (
    # As on Kafka, Produce 0-2 is advertised without being served: old clients then know that compression is supported.
    _api(0, 0, 13, "records.produce", served_from=3),
    _api(1, 4, 18, "records.fetch"),
    _api(2, 1, 11, "records.offsets"),
    _api(3, 0, 13, "cluster.metadata"),
    _api(8, 2, 10, "groups.offset_commit"),
    _api(9, 1, 10, "groups.offset_fetch"),
    _api(10, 0, 6, "cluster.find_coordinator"),
    _api(11, 0, 9, "groups.membership"),
    _api(12, 0, 4, "groups.membership"),
    _api(13, 0, 5, "groups.membership"),
    _api(14, 0, 5, "groups.membership"),
    _api(15, 0, 6, "groups.administration"),
    _api(16, 0, 5, "groups.administration"),
    _api(17, 0, 1, "security.sasl"),
    _api(18, 0, 5, "cluster.api_versions"),
    _api(19, 2, 7, "topics.create_topics"),
    _api(20, 1, 6, "topics.delete_topics"),
    _api(21, 0, 2, "records.offsets"),
    _api(22, 0, 5, "transactions.producers"),
    _api(23, 2, 4, "records.offsets"),
    _api(24, 0, 5, "transactions.producers"),
    _api(25, 0, 4, "transactions.producers"),
    _api(26, 0, 5, "transactions.producers"),
    _api(27, 1, 2, "transactions.administration"),
    _api(28, 0, 6, "transactions.txn_offset_commit"),
    _api(29, 1, 3, "security.acls"),
    _api(30, 1, 3, "security.acls"),
    _api(31, 1, 3, "security.acls"),
    _api(32, 1, 4, "configs.describe_configs"),
    _api(33, 0, 2, "configs.alter_configs"),
    _api(34, 1, 2, "cluster.log_dirs"),
    _api(35, 1, 5, "cluster.log_dirs"),
    _api(36, 0, 2, "security.sasl"),
    _api(37, 0, 3, "topics.create_topics"),
    _api(38, 1, 3, "security.delegation_tokens"),
    _api(39, 1, 2, "security.delegation_tokens"),
    _api(40, 1, 2, "security.delegation_tokens"),
    _api(41, 1, 3, "security.delegation_tokens"),
    _api(42, 0, 3, "groups.administration"),
    _api(43, 0, 2, "cluster.leaders"),
    _api(44, 0, 1, "configs.alter_configs"),
    _api(45, 0, 1, "cluster.leaders"),
    _api(46, 0, 0, "cluster.leaders"),
    _api(47, 0, 0, "groups.offset_commit"),
    _api(48, 0, 1, "client_quotas"),
    _api(49, 0, 1, "client_quotas"),
    _api(50, 0, 0, "security.scram_credentials"),
    _api(51, 0, 0, "security.scram_credentials"),
    _api(55, 0, 2, "cluster.quorum"),
    _api(57, 0, 2, "cluster.features"),
    _api(60, 0, 2, "cluster.describe_cluster"),
    _api(61, 0, 0, "records.offsets"),
    _api(64, 0, 0, "cluster.leaders"),
    _api(65, 0, 0, "transactions.administration"),
    _api(66, 0, 2, "transactions.administration"),
    _api(68, 0, 1, "groups.consumer_groups"),
    _api(69, 0, 1, "groups.consumer_groups"),
    _api(71, 0, 0, "telemetry"),
    _api(72, 0, 0, "telemetry"),
    _api(74, 0, 1, "configs.describe_configs"),
    _api(75, 0, 0, "topics.describe_topic_partitions"),
    _api(76, 1, 1, "groups.share_groups"),
    _api(77, 1, 1, "groups.share_groups"),
    _api(78, 1, 2, "share.share_fetch"),
    _api(79, 1, 2, "share.share_acknowledge"),
    _api(80, 0, 1, "cluster.quorum"),
    _api(81, 0, 0, "cluster.quorum"),
    _api(83, 0, 0, "share_group_state"),
    _api(84, 0, 0, "share_group_state"),
    _api(85, 0, 1, "share_group_state"),
    _api(86, 0, 0, "share_group_state"),
    _api(87, 0, 1, "share_group_state"),
    _api(88, 0, 1, "groups.streams_groups"),
    _api(89, 0, 1, "groups.streams_groups"),
    _api(90, 0, 1, "groups.share_offsets"),
    _api(91, 0, 0, "groups.share_offsets"),
    _api(92, 0, 0, "groups.share_offsets"),
    _api(93, 0, 0, "groups.streams_groups"),
    _api(94, 0, 0, "cluster.quorum"),
)

SERVED: Mapping[int, ServedApi] = {api.key: api for api in _TABLE}
"""The served APIs by API key, in ascending order, as in the answer to ApiVersions."""
METRICS_APIS: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""APIs that need a receiver of metrics. Without a receiver they are served, but not advertised, as on Kafka."""

_loaded: dict[int, Handler] = {}


def handler(api_key: int) -> Handler:
    """The handler of a served API: `handle_` and the API's name in snake case. The first call imports the module."""
    if api_key not in _loaded:
        name = re.sub("([A-Z])", r"_\1", api(api_key).name).lower()
        _loaded[api_key] = lazy(f"muster.coordinator.api.{SERVED[api_key].module}", f"handle{name}")
    return _loaded[api_key]


MAX_BYTES: Final = 32 * 1024 * 1024
"""The largest request without records, in bytes (socket.request.max.bytes limits all requests)."""
NO_LIMIT: Final = 1 << 31
"""A size that no request has."""
LARGE_BYTES: Final = 256 * 1024
"""A thread decodes requests of more bytes, and encodes answers with more bytes of member metadata."""
SMALL_BYTES: Final = 2 * 1024
"""A request of more bytes, without records, waits if large requests have used this iteration of the event loop."""
RECORDS_LARGE_BYTES: Final = 1024 * 1024
"""`LARGE_BYTES` for a request with records: nearly all bytes are records, which are not decoded."""

_KEPT: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""Requests whose parts stay in the state of the group."""

GROUP_ANSWERS: Final = (
    ApiKey.JOIN_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
)
"""APIs with small requests and possibly large answers."""

ONLY_READS: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.STREAMS_GROUP_DESCRIBE,
    }
)  # fmt: skip
"""Requests that never wait for another request. Large requests of these APIs are decoded and answered one at a time."""

_HEAD_4: Final = Struct(">i4s").pack
_HEAD_5: Final = Struct(">i5s").pack
"""Packs the size of a frame and the response header."""
COPIED_BELOW: Final = 16 << 10
"""A smaller answer with records is sent in one piece, because a copy costs less than a second piece."""


class Repeats:
    """The requests of one API that cached requests have answered without an error: `count` of them. The durations of
    `timed` of these are measured, or are taken from a measured one.
    """

    __slots__ = ("count", "timed")

    def __init__(self) -> None:
        self.count = self.timed = 0


class Route:
    """All that is known of one (API, version, client id) before the body is decoded, on any connection."""

    __slots__ = (
        "_lower", "_put_head", "_raise", "_response_header_size", "api", "carries_records", "client_bytes",
        "client_id", "decode", "encode", "flexible", "frees_request", "handler", "head", "header_size",
        "large_bytes", "lowers", "max_bytes", "may_be_large", "only_reads", "repeats", "small_bytes", "version",
    )  # fmt: skip

    def __init__(
        self,
        key: int,
        version: int,
        head: bytes,
        client_bytes: bytes,
        client_id: str,
        repeats: Repeats | None = None,
    ) -> None:
        """`head`: API key and version as in the header. `client_bytes`: the header's client id, with its length.
        `repeats`: where cached requests are counted.
        """
        served = self.api = api(key)
        self.repeats = repeats or Repeats()
        self.version = version
        self.head = head
        self.client_bytes = client_bytes
        self.client_id = client_id
        self.handler = handler(key)
        self.header_size = 8 + len(client_bytes)
        self.flexible = served.request_header_version(version) >= 2
        # a flexible response header ends in an empty set of tagged fields, which is the zero that struct pads with
        flexible_response = served.response_header_version(version)
        self._response_header_size, self._put_head = (5, _HEAD_5) if flexible_response else (4, _HEAD_4)
        self._raise, self._lower = served.raising(version), served.lowering(version)
        self.lowers = self._lower is not None
        self.decode = served.request_decoder(version) if self._raise is None else self._decode_and_raise
        """A function (data, body, end, most elements): the request in its newest shape. It raises `wire.REFUSALS`."""
        self.encode = served.response_encoder(version)
        self.frees_request = key not in _KEPT
        self.may_be_large = key in GROUP_ANSWERS
        self.only_reads = key in ONLY_READS
        self.carries_records = served.request_has_parts
        self.large_bytes = RECORDS_LARGE_BYTES if self.carries_records else LARGE_BYTES
        self.small_bytes = RECORDS_LARGE_BYTES if self.carries_records else SMALL_BYTES
        self.max_bytes = NO_LIMIT if self.carries_records else MAX_BYTES

    def _decode_and_raise(self, *where: Any) -> Any:
        assert self._raise is not None
        return self._raise(self.version, self.api.request_decoder(self.version)(*where))

    def body_at(self, data: bytes, start: int, end: int) -> int:
        """Where the body of the request in data[start:end] begins. Raises CloseConnection if the header is cut off."""
        body = start + self.header_size
        if self.flexible:
            body = body + 1 if data[body : body + 1] == b"\0" else self._skip_tags(data, body, end)
        if body > end:
            raise CloseConnection("malformed request: RequestHeader: truncated", **self.facts())
        return body

    def _skip_tags(self, data: bytes, body: int, end: int) -> int:
        try:
            return frames.skip_header_tags(data, body, end)
        except MalformedMessage as error:
            raise CloseConnection(f"malformed request: {error}", **self.facts()) from error

    def malformed(self, data: bytes, body: int, end: int) -> CloseConnection:
        """The exception for a malformed request, which is decoded again to find the error's place."""
        try:
            self.api.decode_request(self.version, data, body, end)
        except MalformedMessage as error:
            return CloseConnection(f"malformed request: {error}", **self.facts())
        raise AssertionError("the second decoding of a malformed request has found no error")

    def lower(self, response: Message) -> Message:
        """Convert a response from the newest shape to this version."""
        lower = self._lower
        lowered: Message = response if lower is None else lower(self.version, response)
        return lowered

    def frame(self, response: Message, correlation: bytes) -> Answer:
        """The frame of a converted response. Large parts and records are not copied."""
        body = self.encode(response)
        if type(body) is bytes and len(body) < frames.JOIN_BELOW:
            return self._put_head(len(body) + self._response_header_size, correlation) + body
        parts = [body] if isinstance(body, bytes) else body
        size = sum(map(len, parts)) + self._response_header_size
        if size < COPIED_BELOW:
            return b"".join((self._put_head(size, correlation), *parts))
        return frames.joined(self._put_head(size, correlation), parts)

    def around(self, response: Message) -> tuple[bytes, bytes]:
        """The bytes of an answer before and after its correlation id."""
        parts = self.frame(self.lower(response), bytes(4))
        frame = parts if isinstance(parts, bytes) else b"".join(parts)
        return frame[:4], frame[8:]

    def facts(self) -> dict[str, object]:
        """The fields for log lines."""
        return {"api": self.api.name, "version": self.version, "client_id": self.client_id}
