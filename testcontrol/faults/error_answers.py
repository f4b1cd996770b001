"""The answer with one error to any request, in the shape that Kafka's clients expect. The error stands in the answer
itself, and on each requested row.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorResponse
from muster.protocol.messages.join_group import JoinGroupResponse
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from muster.protocol.shapes.offset_fetch import failed_group


class _Rows(NamedTuple):
    request: str
    response: str
    named: tuple[tuple[str, str], ...]
    """The fields that identify a row: in the request, and in the answer; "" is a row that is no struct."""
    inside: _Rows | None = None


def _rows(text: str) -> _Rows:
    """Parse `rows>answer_rows field=answer_field,field / rows>answer_rows field`. A part after ">" or "=" may be left
    out if it is the same as before.
    """
    outer, _, inner = text.partition(" / ")
    lists, _, names = outer.partition(" ")
    request, _, response = lists.partition(">")
    pairs = [pair.partition("=") for pair in names.split(",")]
    named = tuple((one, other if equals else one) for one, equals, other in pairs)
    return _Rows(request, response or request, named, _rows(inner) if inner else None)


_RESOURCES: Final = "resources>responses resource_type,resource_name"
_TABLE: Final[Mapping[int, tuple[str, ...]]] = {
    ApiKey.PRODUCE: ("topic_data>responses name,topic_id / partition_data>partition_responses index",),
    ApiKey.FETCH: ("topics>responses topic,topic_id / partitions partition=partition_index",),
    ApiKey.LIST_OFFSETS: ("topics name / partitions partition_index",),
    ApiKey.METADATA: ("topics name,topic_id",),
    ApiKey.OFFSET_COMMIT: ("topics name,topic_id / partitions partition_index",),
    ApiKey.FIND_COORDINATOR: ("coordinator_keys>coordinators =key",),
    ApiKey.DESCRIBE_GROUPS: ("groups =group_id",),
    ApiKey.CREATE_TOPICS: ("topics name",),
    ApiKey.DELETE_TOPICS: ("topics>responses name,topic_id",),
    ApiKey.DELETE_RECORDS: ("topics name / partitions partition_index",),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("topics topic / partitions partition",),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        "transactions>results_by_transaction transactional_id / topics>topic_results name"
        " / partitions>results_by_partition =partition_index",
    ),
    ApiKey.WRITE_TXN_MARKERS: ("markers producer_id / topics name / partition_indexes>partitions =partition_index",),
    ApiKey.TXN_OFFSET_COMMIT: ("topics name,topic_id / partitions partition_index",),
    ApiKey.CREATE_ACLS: ("creations>results ",),
    ApiKey.DELETE_ACLS: ("filters>filter_results ",),
    ApiKey.DESCRIBE_CONFIGS: ("resources>results resource_type,resource_name",),
    ApiKey.ALTER_CONFIGS: (_RESOURCES,),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_RESOURCES,),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ("topics>results name=topic_name / partitions =partition_index",),
    ApiKey.CREATE_PARTITIONS: ("topics>results name",),
    ApiKey.ELECT_LEADERS: (
        "topic_partitions>replica_election_results topic / partitions>partition_result =partition_id",
    ),
    ApiKey.DELETE_GROUPS: ("groups_names>results =group_id",),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ("topics>responses name / partitions partition_index",),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("users>results name=user",),
    ApiKey.ALTER_CLIENT_QUOTAS: ("entries / entity entity_type,entity_name",),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("deletions>results name=user", "upsertions>results name=user"),
    ApiKey.DESCRIBE_PRODUCERS: ("topics name / partition_indexes>partitions =partition_index",),
    ApiKey.DESCRIBE_TRANSACTIONS: ("transactional_ids>transaction_states =transactional_id",),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("group_ids>groups =group_id",),
    ApiKey.SHARE_GROUP_DESCRIBE: ("group_ids>groups =group_id",),
    ApiKey.STREAMS_GROUP_DESCRIBE: ("group_ids>groups =group_id",),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ("groups group_id",),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("topics name",),
    **dict.fromkeys(
        (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ),
        ("topics>results topic_id / partitions partition",),
    ),
}
"""The APIs whose answers have errors on their rows. All other answers have one error."""
_ERROR_FIELDS: Final = ("error_code", "partition_error_code")
_UNKNOWN: Final = (
    "base_offset", "offset", "high_watermark", "low_watermark", "last_stable_offset", "log_start_offset", "node_id",
    "producer_id", "producer_epoch", "generation_id", "log_append_time_ms", "timestamp", "end_offset",
)  # fmt: skip
"""Fields that are -1 in an answer with an error."""


def error_answer(key: int, version: int, request: Message, error_code: int, message: str | None = None) -> Message:
    """The answer of the API `key` to `request` with only `error_code`, and `message` if it has a field for that. The
    answer has the newest shape, but only values that this version can express.
    """
    if isinstance(request, OffsetFetchRequest):
        return OffsetFetchResponse(groups=[failed_group(group, error_code) for group in request.groups])
    response: Any = api(key).new_response()
    # a refused member gets its own id back
    own = {"member_id": getattr(request, "member_id", None)} if key == ApiKey.JOIN_GROUP else {}
    _set_fields(response, error_code, message, own)
    # topics are named in directories, which the answer does not name
    parts: Sequence[Any] = request.dirs if isinstance(request, AlterReplicaLogDirsRequest) else (request,)
    for text in _TABLE.get(key, ()):
        for part in parts:
            _answer_rows(_rows(text), part, response, error_code, message)
    if key == ApiKey.FIND_COORDINATOR or (key == ApiKey.ELECT_LEADERS and not version):
        # the answer has errors only on rows
        response.error_code = ErrorCode.NONE
    if isinstance(response, FindCoordinatorResponse):
        response.node_id, response.error_message = 0, ""
    if isinstance(response, JoinGroupResponse):
        response.protocol_name = None
    made: Message = response
    return made


def _answer_rows(rows: _Rows, request: Any, response: Any, error_code: int, message: str | None) -> None:
    kind = _row_class(response, rows.response)
    made = list(getattr(response, rows.response) or ())
    for row in getattr(request, rows.request, None) or ():
        values = {there: row if not here else getattr(row, here) for here, there in rows.named if there}
        answer = kind()
        _set_fields(answer, error_code, message, values)
        if rows.inside is not None:
            _answer_rows(rows.inside, row, answer, error_code, message)
        made.append(answer)
    setattr(response, rows.response, made)


def _set_fields(message: Any, error_code: int, words: str | None, values: Mapping[str, Any]) -> None:
    fields = message.__slots__
    for name in fields:
        if name in _ERROR_FIELDS:
            setattr(message, name, error_code)
        elif name == "error_message" and words is not None:
            setattr(message, name, words)
        elif values.get(name) is not None:
            setattr(message, name, values[name])
        elif name in _UNKNOWN and any(one in fields for one in _ERROR_FIELDS):
            setattr(message, name, -1)


def _row_class(message: Message, field: str) -> Any:
    """The class of the rows in a field. In the layout, each field of a struct is two columns deeper than the struct."""
    kind = type(message)
    module: Any = sys.modules[kind.__module__]
    for layout in module.LAYOUTS.values():
        struct = re.search(rf"^( *)(\w+ \[\])?{kind.__name__} .*\n((?:\1  .*\n)+)", layout, re.MULTILINE)
        if struct is not None:
            row = re.search(rf"^{struct[1]}  {field} \[\](\w+) ", struct[3], re.MULTILINE)
            assert row is not None
            return getattr(module, row[1])
    raise AssertionError(f"{kind.__name__} is in no layout")
