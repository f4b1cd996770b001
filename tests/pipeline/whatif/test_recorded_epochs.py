"""KIP-848 groups as Kafka 4.3 wrote them: the replay reproduces their histories."""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muster.pipeline.decode import decode
from muster.pipeline.defaults import EPOCH_SESSION_MS
from muster.pipeline.infer.epoch_image import CLASSIC, CURRENT, TARGET_EPOCH
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.tables.epoch_states import rows_of_group
from muster.pipeline.whatif.from_epochs import protocol_changed
from muster.pipeline.whatif.job import played
from muster.pipeline.whatif.settings import parse

LOG = Path(__file__).parents[1] / "tables" / "data" / "kafka-4.3-epochs.tar.xz"
DIED = {
    "confluent-0": (
        "RvtoUhrcQwSRjzVn/F11QA", "UkYN2CDpTWy/A7pWpfrRRg", "yjPZYxrSTRmIAoVhROIdQA", "6naPSDS4RzmfbWVgqVsmLA",
        "AiBmkfVaTbSfn6o+aBP4WQ",
    ),
    "java-2": ("kP4ocnC_T6ibKVfiNc2wkQ", "DB9_XzdaSy-Z9HHEmdk1vQ"),
    "st": ("xnwq41dOQQy9LH8n6la1ug",),
}  # fmt: skip
"""The dead members, as in the table `rebalances`."""


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """The input of each group's task in the job."""
    directory = tmp_path_factory.mktemp("log")
    with tarfile.open(LOG) as files:
        files.extractall(directory, filter="data")
    rows: list[dict[str, Any]] = [
        row for raw in read_segments(str(directory)) for batch in decode(raw) for row in batch.to_pylist()
    ]
    end_ms = max(row["log_timestamp_ms"] for row in rows)
    records = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["log_offset"]):
        if row["kind"] == "consumer" or (row["key_type"] == CLASSIC and row["is_tombstone"]):
            records[row["group"]].append(row)
    names = {row["topic_id"]: row["topic"] for row in rows if row["topic_id"] is not None}
    return {group: _histories(group, some, names, end_ms) for group, some in records.items()}


def _histories(group: str, records: list[dict[str, Any]], names: dict[str, str], end_ms: int) -> pa.Table:
    reported = [(one["log_offset"], "epochs", one) for one in rows_of_group(group, records, names) if "at_ms" in one]
    gone = [one for _, _, row in reported for one in (row["change"] or {}).get("gone") or ()]
    ends = [(one["member"]["member_id"], one["at_ms"]) for one in gone]
    reported += [
        (-1, "died", {"member_id": member_id, "end_ms": at_ms, "last_ms": at_ms - EPOCH_SESSION_MS})
        for member_id, at_ms in ends
        if member_id in DIED.get(group, ())
    ]
    for row in records:
        if row["value_json"] is not None and row["key_type"] in (CURRENT, TARGET_EPOCH):
            member_id = json.loads(row["key_json"]).get("memberId")
            source = "targets" if member_id is None else "beats"
            reported.append((row["log_offset"], source, {"at_ms": row["log_timestamp_ms"], "member_id": member_id}))
    return pa.Table.from_pylist(
        [
            {"group": group, "source": source, "log_offset": offset, "value": json.dumps(value), "end_ms": end_ms}
            for offset, source, value in reported
        ]
    )


@pytest.mark.parametrize("group", ["confluent-0", "g", "java-2", "n", "rt", "sl", "st"])
def test_every_recorded_epoch_is_reproduced(groups: dict[str, pa.Table], group: str) -> None:
    """Clients send heartbeats at their own times, and the first heartbeat decides what the server gives to whom."""
    (fidelity,) = played(groups[group], ())
    assert (fidelity["withheld"], fidelity["why"]) == (False, None)
    assert fidelity["reproduced"] == fidelity["generations"] >= 2


def test_another_heartbeat_interval_changes_the_replay(groups: dict[str, pa.Table]) -> None:
    """The real times of heartbeats are not used then."""
    paused = [
        row["paused_partition_s"]
        for row in played(groups["confluent-0"], parse('[{}, {"heartbeat.interval.ms": 500}]'))
        if row["table"] == "whatif"
    ]
    assert paused[1] < paused[0] / 2


@pytest.mark.parametrize("group", ["confluent-0", "g", "java-2", "st"])
def test_an_unchanged_setting_costs_what_happened(groups: dict[str, pa.Table], group: str) -> None:
    """The replay pauses partitions for some ms more or less than the group did: that is no effect of the setting."""
    (row,) = [row for row in played(groups[group], parse("consumer")) if row["table"] == "whatif"]
    for name in ("rebalances", "moved_partitions", "paused_partition_s", "silent_partition_s"):
        assert row[name] == row[f"actual_{name}"]


def test_an_upgraded_group_is_replayed_from_its_upgrade_on(groups: dict[str, pa.Table]) -> None:
    (fidelity,) = played(groups["up"], ())
    assert (fidelity["withheld"], fidelity["reproduced"], fidelity["generations"]) == (False, 1, 1)
    assert fidelity["why"].startswith("only since it is a group of the consumer protocol, from 2026-11-22 02:26")


def test_a_group_of_both_protocols_to_the_end_cannot_be_played(groups: dict[str, pa.Table]) -> None:
    rows = groups["up"].to_pylist()
    epochs = [json.loads(row["value"]) for row in rows if row["source"] == "epochs"]
    mixed_ms = max(one["at_ms"] for one in epochs if any(each["session_timeout_ms"] for each in one["members"] or ()))
    until_then = [row for row in rows if row["source"] != "epochs" or json.loads(row["value"])["at_ms"] <= mixed_ms]
    (fidelity,) = played(pa.Table.from_pylist(until_then, groups["up"].schema), ())
    assert fidelity["withheld"]
    assert fidelity["why"].startswith("it had members of both protocols until 2026-11-22 02:26")


def test_the_time_of_a_protocol_change_is_found() -> None:
    classic = [{"at_ms": at, "is_tombstone": False, "members": [{}]} for at in (1, 2)]
    reported = [
        {"at_ms": at, "members": [{"session_timeout_ms": session} for session in sessions]}
        for at, sessions in ((3, [6_000, None]), (4, [None]), (5, []))
    ]
    assert protocol_changed(reported, []) == (3, False)
    assert protocol_changed(reported[1:], classic) == (2, False)
    assert protocol_changed(reported[1:], []) == (0, False)
    back = {"at_ms": 6, "is_tombstone": False, "members": [{}]}
    assert protocol_changed(reported, [*classic, back]) == (4, True)
    assert protocol_changed(reported, [*classic, {**back, "members": []}]) == (3, False)
