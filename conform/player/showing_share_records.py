"""The outcome lines of the commands about the records of share groups (KIP-932)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from muster.conform.player.asking_share_records import GROUP, STATES, TOPIC
from muster.conform.player.batches import batches_of
from muster.conform.player.showing_transactions import topic_of
from muster.conform.player.stage import Actor, Stage, error_name, named
from muster.conform.player.story import Body, Reply

LAST_EPOCH = -1
LOCK_MS = 30_000
"""The usual duration of a lock, which lines do not show."""
MOVED = (6, 74)
"""NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH: the answer says where the leader is."""


def absorb(stage: Stage, actor: Actor, reply: Reply) -> None:
    """Remember the epoch of the member's next request."""
    if reply.api in ("ShareFetch", "ShareAcknowledge") and reply.body["ErrorCode"] == 0:
        epoch = reply.request["ShareSessionEpoch"]
        actor.session = 0 if epoch == LAST_EPOCH else epoch + 1


def _span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def _message(stage: Stage, text: str | None) -> str:
    return "" if text is None else f" {json.dumps(stage.plain(text))}"


def _rows(stage: Stage, topics: Iterable[Body], text: Callable[[Body], str], field: str = "PartitionIndex") -> str:
    found = sorted((topic_of(stage, {"Name": "", **topic}), row[field], text(row)) for topic in topics for row in
                   topic["Partitions"])  # fmt: skip
    return "".join(f" {topic}/{index}={shown}" for topic, index, shown in found)


def _acquired(row: Body) -> str:
    its = row["AcquiredRecords"] or []
    shown = [f"{_span(one['FirstOffset'], one['LastOffset'])}*{one['DeliveryCount']}" for one in its]
    out = f"[{' '.join(shown)}]"
    batches = batches_of(row["Records"])
    if batches and (batches[0].base_offset, batches[-1].last_offset) != (its[0]["FirstOffset"], its[-1]["LastOffset"]):
        out += f" of {_span(batches[0].base_offset, batches[-1].last_offset)}"
    return out


def _leader(row: Body) -> str:
    hint = row["CurrentLeader"]
    return f" leader={hint['LeaderId']}@{hint['LeaderEpoch']}" if row["ErrorCode"] in MOVED else ""


def _first(stage: Stage, name: str, body: Body) -> str:
    out = f"{name} {error_name(body['ErrorCode'])}{_message(stage, body['ErrorMessage'])}"
    lock_ms = body["AcquisitionLockTimeoutMs"]
    return out + named(lock=None if lock_ms in (0, LOCK_MS) else lock_ms)


def show_fetch(stage: Stage, actor: Actor, reply: Reply) -> str:
    asked = {
        (topic["TopicId"], row["PartitionIndex"])
        for topic in reply.request["Topics"]
        for row in topic["Partitions"]
        if row["AcknowledgementBatches"]
    }

    def shown(topic_id: object, row: Body) -> str:
        out = error_name(row["ErrorCode"]) if row["ErrorCode"] else _acquired(row)
        out += _leader(row)
        if (topic_id, row["PartitionIndex"]) in asked or row["AcknowledgeErrorCode"]:
            out += f" ack={error_name(row['AcknowledgeErrorCode'])}{_message(stage, row['AcknowledgeErrorMessage'])}"
        return out

    body = reply.body
    rows = [_rows(stage, [topic], lambda row, its=topic: shown(its["TopicId"], row)) for topic in body["Responses"]]  # type: ignore[misc]  # bound now
    return _first(stage, "share-fetch", body) + "".join(sorted(rows))


def show_acknowledge(stage: Stage, actor: Actor, reply: Reply) -> str:
    def shown(row: Body) -> str:
        return error_name(row["ErrorCode"]) + _message(stage, row["ErrorMessage"]) + _leader(row)

    body = reply.body
    return _first(stage, "share-acknowledge", body) + _rows(stage, body["Responses"], shown)


def show_configs(stage: Stage, actor: Actor, reply: Reply) -> str:
    (row,) = reply.body["Responses"]
    kind = {TOPIC: "topic", GROUP: "group"}[row["ResourceType"]]
    return f"{kind}-config {error_name(row['ErrorCode'])}{_message(stage, row['ErrorMessage'] or None)}"


def show_deleted(stage: Stage, actor: Actor, reply: Reply) -> str:
    def shown(row: Body) -> str:
        return error_name(row["ErrorCode"]) + ("" if row["ErrorCode"] else f" start={row['LowWatermark']}")

    return "delete-records" + _rows(stage, reply.body["Topics"], shown)


def _state(stage: Stage, row: Body) -> str:
    if row["ErrorCode"]:
        return error_name(row["ErrorCode"]) + _message(stage, row["ErrorMessage"])
    out = "ok" + named(
        epoch=row.get("StateEpoch"), leader=row.get("LeaderEpoch"), start=row.get("StartOffset"),
        done=row.get("DeliveryCompleteCount"),
    )  # fmt: skip
    if "StateBatches" in row:
        rows = [
            f"{_span(one['FirstOffset'], one['LastOffset'])}:{STATES[one['DeliveryState']]}*{one['DeliveryCount']}"
            for one in row["StateBatches"]
        ]
        out += f" [{' '.join(rows)}]"
    return out


def _showing_states(name: str) -> Callable[[Stage, Actor, Reply], str]:
    def show(stage: Stage, actor: Actor, reply: Reply) -> str:
        return name + _rows(stage, reply.body["Results"], lambda row: _state(stage, row), "Partition")

    return show


SHOW: dict[str, Callable[[Stage, Actor, Reply], str]] = {
    "ShareFetch": show_fetch,
    "ShareAcknowledge": show_acknowledge,
    "IncrementalAlterConfigs": show_configs,
    "DeleteRecords": show_deleted,
    "InitializeShareGroupState": _showing_states("state-initialize"),
    "ReadShareGroupState": _showing_states("state-read"),
    "ReadShareGroupStateSummary": _showing_states("state-summary"),
    "WriteShareGroupState": _showing_states("state-write"),
    "DeleteShareGroupState": _showing_states("state-delete"),
}
