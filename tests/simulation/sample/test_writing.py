from __future__ import annotations

from pathlib import Path

import pytest

from muster.simulation.sample.stories import CYCLE, STORIES
from muster.simulation.sample.writing import NotEmpty, Wanted, write
from tests.simulation.sample.reading import Row, commits, fingerprint, history, truth

HOURS = 2.0


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sample")
    written = write(directory, Wanted(groups=50, hours=HOURS))
    assert written.commits == sum(one.offset is not None for one in commits(directory))
    return directory


def test_a_seed_always_gives_the_same_bytes_of_a_sample(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        write(tmp_path / name, Wanted(groups=8, hours=1, seed=seed))
    one = fingerprint(tmp_path / "one")
    assert len(one) > 300
    assert fingerprint(tmp_path / "two") == one
    assert fingerprint(tmp_path / "three") != one


def test_the_server_refuses_only_planned_requests_of_a_sample(sample: Path) -> None:
    reported = truth(sample)
    assert "unplanned" not in reported
    assert "unfinished" not in reported
    assert len(reported["group"]) == len(CYCLE) == 50
    assert {group["story"] for group in reported["group"]} == set(STORIES)
    assert {row["cause"] for row in reported["regression"]} == {"zombie", "rewind", "reset"}
    assert {row["how"] for row in reported["stall"]} == {"stuck", "silent"}
    assert {row["what"] for row in reported["gone"]} == {"deleted", "offsets_deleted", "offsets_expired"}
    assert {row["error"] for row in reported["refused"]} == {"UNKNOWN_MEMBER_ID"}


def test_the_history_of_a_sample_has_the_planned_rebalances(sample: Path) -> None:
    # a group that was emptied: its cause is in the event at the beginning of the rebalance
    begun: dict[str, Row] = {}
    seen = {}
    for event in history(sample):
        if event["kind"] == "rebalance_started":
            begun[event["group"]] = event
        elif event["kind"] in ("rebalance_completed", "group_emptied"):
            start = begun[event["group"]]
            trigger = start["trigger"]
            seen[event["group"], event["generation"]] = (start["cause"], trigger and trigger["client_id"])
    meant = {
        (row["group"], row["generation"]): (row["cause"], row["trigger"] and row["trigger"]["client_id"])
        for row in truth(sample)["rebalance"]
    }
    assert seen == meant
    assert {cause for cause, _ in seen.values()} >= {
        "member_joined",
        "member_left",
        "session_expired",
        "subscription_changed",
        "partitions_changed",
        "leader_rejoined",
        "metadata_changed",
        "static_member_returned",
    }


def test_the_history_of_a_sample_has_the_planned_owners(sample: Path) -> None:
    reported = truth(sample)
    consumers = {group["group"] for group in reported["group"] if group["protocol"]}
    owners = {
        (row["group"], row["generation"]): row["owners"]
        for row in reported["rebalance"]
        if row["owners"] and row["group"] in consumers
    }
    seen = {
        (event["group"], event["generation"]): {
            member["client_id"]: {one["topic"]: one["partitions"] for one in member["assignment"]}
            for member in event["members"]
        }
        for event in history(sample)
        if event["kind"] == "rebalance_completed" and event["group"] in consumers
    }
    assert len(owners) > 100
    assert {key: seen[key] for key in owners} == owners


def test_only_planned_commits_of_a_sample_go_back(sample: Path) -> None:
    last: dict[tuple[str, str, int], int | None] = {}
    back = []
    for one in commits(sample):
        key = (one.group, one.topic, one.partition)
        before = last.get(key)
        if before is not None and one.offset is not None and one.offset < before:
            back.append((*key, before, one.offset))
        last[key] = one.offset
    meant = [
        (row["group"], topic, int(partition), before, after)
        for row in truth(sample)["regression"]
        for topic, partitions in row["offsets"].items()
        for partition, (before, after) in partitions.items()
    ]
    assert len(meant) > 10
    assert sorted(back) == sorted(meant)


def test_only_planned_offsets_of_a_sample_are_deleted(sample: Path) -> None:
    left: dict[str, dict[tuple[str, int], int | None]] = {}
    for one in commits(sample):
        left.setdefault(one.group, {})[one.topic, one.partition] = one.offset
    for row in truth(sample)["gone"]:
        if row["what"] != "offsets_deleted":
            assert set(left[row["group"]].values()) == {None}, row
    kept = [group["group"] for group in truth(sample)["group"] if group["story"] not in ("deleted-group", "connect")]
    assert all(any(at is not None for at in left[group].values()) for group in kept if "expired" not in group)


def test_a_sample_has_about_the_wanted_number_of_commits(tmp_path: Path) -> None:
    written = write(tmp_path / "many", Wanted(groups=5, hours=1, records=20_000))
    assert 15_000 < written.commits < 25_000
    # more partitions rather than a commit at every moment
    assert max(topic["partitions"] for topic in truth(tmp_path / "many")["topic"]) >= 16


def test_a_sample_is_not_written_over_other_files(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    with pytest.raises(NotEmpty, match="is not empty"):
        write(tmp_path, Wanted(groups=1, hours=1))
    assert [one.name for one in tmp_path.iterdir()] == ["something"]
