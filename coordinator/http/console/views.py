"""The answers of the console, as JSON, made of what a `Source` answers. The pages of `static/` know their fields."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from typing import Any, Final

from muster.coordinator.http.console.now import Doing, sentences
from muster.coordinator.http.console.sources import Ends, Refused, Requester, Source
from muster.coordinator.http.described_groups import CLASSIC, NEWER, SHARE, Description, classic_group, newer_group
from muster.coordinator.http.kafka_metrics import TopicRow
from muster.coordinator.http.live_groups import LiveGroup, LiveGroups
from muster.coordinator.http.sight import Sees
from muster.coordinator.system.jobs import Job
from muster.coordinator.telemetry.reports import ALL, CONFIG
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode, error_message, error_name
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from muster.protocol.messages.describe_transactions import DescribeTransactionsRequest
from muster.protocol.messages.list_transactions import ListTransactionsRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

Row = dict[str, Any]
ROWS_AT_ONCE: Final = 50
"""How many rows of a list one step makes."""
MAX_PARTITIONS: Final = 2_000
"""The most partitions on one page."""
MAX_IDS: Final = 500
"""The most transactional ids on one page."""
MAX_MEMBERS: Final = 1_000
"""The most members on one page."""
GROUP_RESOURCE: Final = 32
BROKER_RESOURCE: Final = 4
CLIENT_METRICS: Final = 16
"""Types of ConfigResource."""
OF_CLASSIC: Final = (
    "group.initial.rebalance.delay.ms",
    "group.min.session.timeout.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "offsets.retention.minutes",
)
"""The settings of a broker that classic groups depend on."""
_TAG: Final = re.compile(r"</?[a-z]+>")
"""Kafka's explanations are written for its own pages."""
SOURCES: Final = {
    1: "topic", 2: "changed on this broker", 3: "changed on all brokers", 4: "the broker's file", 5: "default",
    8: "this group",
}  # fmt: skip
"""Where the value of a config is from."""


def refusal(error_code: int, message: str | None = None) -> Refused:
    """The exception for an error code."""
    return Refused(f"{error_name(error_code)} ({message or error_message(error_code)})")


# ---- groups


def group_row(one: LiveGroup) -> Row:
    """A group in the list."""
    rates, last = one.rates, one.last_rebalance
    return {
        "group": one.group,
        "type": one.kind,
        "state": one.state,
        "members": one.members,
        "partitions": one.partitions,
        "lag": one.lag,
        "lags": one.lags,
        "committed_s": _rounded(rates.committed_s),
        "written_s": _rounded(rates.written_s),
        "catch_up_s": _rounded(rates.catch_up_s(one.lag)),
        "trouble": one.trouble,
        "alert": one.alert,
        "rebalanced": None if last is None else last.at_ms,
        "why": None if last is None else last.text,
    }


def group_rows(groups: Sequence[LiveGroup]) -> Job[list[Row]]:
    """The rows of a list."""
    rows = []
    for number, one in enumerate(groups):
        rows.append(group_row(one))
        if not number % ROWS_AT_ONCE:
            yield None
    return rows


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


async def described(source: Source, group: str, who: Requester) -> Callable[[], Description] | None:
    """What makes the description of a group of any type; None: there is no such group. Raises Refused."""
    answer = await source.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group]), who, group)
    (row,) = answer.groups
    if not row.error_code and row.group_state != "Dead":
        return partial(classic_group, row)
    if row.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise refusal(row.error_code, row.error_message)
    for kind, (key, request, _) in NEWER.items():
        try:
            (row,) = (await source.ask(key, request([group]), who, group)).groups
        except Refused:  # an old broker, or a type that the server does not have
            continue
        if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            continue
        if row.error_code:
            raise refusal(row.error_code, row.error_message)
        return partial(newer_group, kind, row)
    return None


async def group_view(
    source: Source, live: LiveGroups, group: str, who: Requester, doing: Doing
) -> Callable[[], Row] | None:
    """What makes the view of a group: its members, and what happens now; None: there is no such group."""
    make = await described(source, group, who)
    if make is None:
        return None
    one = live.groups.get(group) or LiveGroup(group)
    row = group_row(one)
    topics = [
        {"topic": topic, "lag": sample.lag, "committed": sample.committed, "end": sample.end}
        for topic, sample in sorted(one.topics.items())
    ]
    return partial(_group_view, make, row, one.copy(), doing, live.topics, topics, await client_reports(source, who))


def _group_view(
    make: Callable[[], Description],
    row: Row,
    live: LiveGroup,
    doing: Doing,
    known: Mapping[str, TopicRow],
    topics: Sequence[Row],
    reports: Sequence[str],
) -> Row:
    found = make()
    owned = {topic for one in found.members for topic in one.partitions}
    sizes = {topic: known[topic].size for topic in owned if topic in known}
    says = {one["member"]: one for one in clients(reports) if one["group"] == found.group}
    members = []
    for member in sorted(found.members, key=lambda member: member.member)[:MAX_MEMBERS]:
        does, report = doing.get(member.member), says.get(member.member)
        members.append(
            {
                **member._asdict(),
                "doing": None if does is None else does.words,
                "settled": does is None or does.is_settled,
                "silent_ms": does.silent_ms if does is not None and does.is_silent else None,
                "figures": None if report is None else report["figures"],
            }
        )
    return {
        **row,
        "type": found.type,
        "state": found.state,
        "members": members,
        "member_count": len(found.members),
        "protocol": found.protocol,
        "epoch": found.epoch,
        "now": sentences(found, live, doing, sizes),
        "topics": topics,
    }


async def offsets(source: Source, live: LiveGroups, group: str, who: Requester) -> Callable[[], Row]:
    """What makes the offsets of a group, with the ends and the lag. `is_cut`: there are more partitions."""
    one = live.groups.get(group)
    if one is not None and one.kind == SHARE:
        return await _share_offsets(source, group, who)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, None, -1, None)])
    (row,) = (await source.ask(ApiKey.OFFSET_FETCH, request, who, group)).groups
    if row.error_code:
        raise refusal(row.error_code)
    ends = await source.ends([topic.name for topic in row.topics])
    return lambda: _cut(
        [
            _offset_row(ends, topic.name, one.partition_index, one.committed_offset, None, one.metadata)
            for topic in row.topics
            for one in topic.partitions
            if one.committed_offset >= 0
        ]
    )


async def _share_offsets(source: Source, group: str, who: Requester) -> Callable[[], Row]:
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, None)])
    (row,) = (await source.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, who, group)).groups
    if row.error_code:
        raise refusal(row.error_code, row.error_message)
    ends = await source.ends([topic.topic_name for topic in row.topics])
    return lambda: _cut(
        [
            _offset_row(
                ends, topic.topic_name, one.partition_index, one.start_offset, one.lag if one.lag >= 0 else None
            )
            for topic in row.topics
            for one in topic.partitions
            if not one.error_code and one.start_offset >= 0
        ]
    )


def _offset_row(
    of_topics: Ends, topic: str, partition: int, offset: int, lag: int | None, metadata: str | None = None
) -> Row:
    ends = of_topics.get(topic, {}).get(partition)
    if lag is None and ends is not None:
        lag = max(ends[1] - offset, 0)
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "start": None if ends is None else ends[0],
        "end": None if ends is None else ends[1],
        "lag": lag,
        "metadata": metadata or "",
    }


def _cut(rows: list[Row]) -> Row:
    rows.sort(key=lambda row: (row["topic"], row["partition"]))
    return {"offsets": rows[:MAX_PARTITIONS], "partitions": len(rows), "is_cut": len(rows) > MAX_PARTITIONS}


async def settings(source: Source, group: str, kind: str, who: Requester) -> list[Row]:
    """The settings of a group with their meaning, in Kafka's words."""
    if kind in (CLASSIC, ""):
        about = await source.about()
        resource = DescribeConfigsResource(BROKER_RESOURCE, str(about["nodes"][0]["node"]), list(OF_CLASSIC))
    else:
        resource = DescribeConfigsResource(GROUP_RESOURCE, group, None)
    request = DescribeConfigsRequest([resource], include_documentation=True)
    (row,) = (await source.ask(ApiKey.DESCRIBE_CONFIGS, request, who)).results
    if row.error_code:
        raise refusal(row.error_code, row.error_message)
    return [
        {
            "name": one.name,
            "value": None if one.is_sensitive else one.value,
            "from": SOURCES.get(one.config_source, "unknown"),
            "meaning": html.unescape(_TAG.sub(" ", one.documentation or "")),
        }
        for one in row.configs
        if one.name in OF_CLASSIC or _concerns(kind, one.name)
    ]


_LETTERS: Final = (SHARE, "errors")


def _concerns(kind: str, name: str) -> bool:
    """Whether a config of groups concerns this type: names begin with the type, or with no type. `errors` are those of
    share groups: their dead-letter queues.
    """
    begins = name.partition(".")[0]
    return begins == kind or begins not in ("consumer", "share", "streams", "errors") or (kind, begins) == _LETTERS


# ---- topics, clients, transactions


def topics(live: LiveGroups, search: str, skip: int, most: int, sees: Sees | None = None) -> Job[Row]:
    """A page of the topics. `sees`: only these topics; None means all."""
    names = []
    for number, name in enumerate([*live.topics]):
        if search in name and (sees is None or sees(name)):
            names.append(name)
        if not number % ROWS_AT_ONCE:
            yield None
    names.sort()
    rows = []
    for name in names[skip : skip + most]:
        ends = live.ends.get(name, {})
        records = sum(end - start for start, end in ends.values()) if ends else None
        rows.append({"topic": name, "partitions": live.topics[name].size, "records": records})
        yield None
    total = len(live.topics) if sees is None else len(names)
    return {"topics": rows, "matching": len(names), "total": total}


def topic(live: LiveGroups, name: str, sees: Sees | None = None) -> Job[Row | None]:
    """The partitions of a topic, and those readers that `sees` names; None: there is no such topic."""
    found = live.topics.get(name)
    if found is None:
        return None
    partitions = [one._asdict() for one in [*found.partitions][:MAX_PARTITIONS]]
    readers: list[LiveGroup] = []
    for number, one in enumerate([*live.groups.values()]):
        if name in one.topics and (sees is None or sees(one.group)):
            readers.append(one)
        if not number % ROWS_AT_ONCE:
            yield None
    most = nsmallest(MAX_MEMBERS, readers, key=lambda one: -one.topics[name].lag)
    rows = [{"group": one.group, "state": one.state, "lag": one.topics[name].lag} for one in most]
    return {"topic": name, "size": found.size, "partitions": partitions, "groups": rows}


async def client_reports(source: Source, who: Requester) -> list[str]:
    """What clients say of themselves (KIP-714), as JSON. Empty: nobody keeps it, or may see it."""
    request = DescribeConfigsRequest([DescribeConfigsResource(CLIENT_METRICS, ALL, [CONFIG])])
    try:
        answers: Sequence[Any] = await source.ask_every(ApiKey.DESCRIBE_CONFIGS, request, who)
    except Refused:
        return []
    return [config.value for answer in answers for config in answer.results[0].configs]


def clients(reports: Sequence[str]) -> list[Row]:
    """The newest report of each client."""
    found: dict[str, Row] = {}
    for text in reports:
        for one in json.loads(text):
            before = found.get(one["id"])
            if before is None or before["pushed_ms"] < one["pushed_ms"]:
                found[one["id"]] = one
    return sorted(found.values(), key=lambda one: (one["group"] or "", one["client_id"], one["id"]))


async def transactions(source: Source, who: Requester, now_ms: int) -> Row:
    """The open transactions, the oldest first, and the other transactional ids."""
    ids: list[Any] = []
    for answer in await source.ask_every(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(), who):
        if answer.error_code:
            raise refusal(answer.error_code)
        ids += answer.transaction_states
    opened = [one.transactional_id for one in ids if one.transaction_state not in _ENDED][:MAX_IDS]
    rows: list[Row] = []
    if opened:
        for answer in await source.ask_every(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(opened), who):
            rows += [_transaction(one, now_ms) for one in answer.transaction_states if not one.error_code]
    rows.sort(key=lambda row: -row["open_ms"])
    others = [
        {"id": one.transactional_id, "state": one.transaction_state, "producer_id": one.producer_id}
        for one in sorted(ids, key=lambda one: str(one.transactional_id))
        if one.transaction_state in _ENDED
    ]
    return {"open": rows, "others": others[:MAX_IDS], "total": len(ids)}


_ENDED: Final = ("Empty", "CompleteCommit", "CompleteAbort")


def _transaction(one: Any, now_ms: int) -> Row:
    began: int = one.transaction_start_time_ms
    partitions: Mapping[str, Sequence[int]] = {row.topic: row.partitions for row in one.topics}
    return {
        "id": one.transactional_id,
        "state": one.transaction_state,
        "producer_id": one.producer_id,
        "epoch": one.producer_epoch,
        "timeout_ms": one.transaction_timeout_ms,
        "open_ms": max(now_ms - began, 0) if began >= 0 else 0,
        "topics": partitions,
    }
