from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame, SparkSession

from muster.pipeline.follow import refresh, run, staging
from muster.pipeline.follow.manifest import reached
from muster.pipeline.follow.refresh import ClusterState, Watch, request_state
from muster.pipeline.follow.run import Follower, Following
from muster.pipeline.sources.cluster import Offsets
from muster.pipeline.sources.ends import Reach
from muster.pipeline.stage import Source, stage
from muster.pipeline.wanted import Wanted
from tests.pipeline.live import Live


def seen(at_ms: int, **logged: int) -> ClusterState:
    return ClusterState(Reach(at_ms, {}), {int(partition[1:]): end for partition, end in logged.items()})


def test_an_observation_of_ends_counts_when_all_earlier_commits_are_staged() -> None:
    one = seen(1, p0=10, p1=5, p2=0)
    assert one.is_in({0: 10, 1: 5})
    assert not one.is_in({0: 10, 1: 4})
    assert not one.is_in({})
    assert one.is_all_of({0: 10, 1: 5})
    assert not one.is_all_of({0: 11, 1: 5})
    assert not one.is_all_of({7: 1})


def test_the_newest_valid_observation_of_ends_is_used() -> None:
    looks = iter(range(1, 100))
    reach = 10
    watch = Watch(lambda: seen(next(looks), p0=reach))

    def newest(staged: int) -> int | None:
        found = watch.newest({0: staged})
        return None if found is None else found.reach.at_ms

    watch.begin()
    # the follower first reads a log that is far ahead: the first request waits until then
    reach = 90
    assert [newest(0), newest(5), newest(9)] == [None, None, None]
    assert newest(10) == 1
    # groups continue to commit: the request before counts
    assert newest(89) == 1
    reach = 200
    assert newest(90) == 5
    # no record came meanwhile
    assert newest(200) == 8
    reach = 300
    assert newest(200) == 8


def test_topics_that_grow_while_nobody_commits_are_noticed() -> None:
    ends = {("read", 0): 5, ("unread", 0): 5}
    committed = 10
    watch = Watch(lambda: ClusterState(Reach(1, dict(ends)), {0: committed}))
    assert watch.has_grown({0: 10})
    watch.newest({0: 10})
    assert watch.has_grown({0: 10})
    watch.places = {("read", 0)}
    assert not watch.has_grown({0: 10})
    ends["unread", 0] = 6
    assert not watch.has_grown({0: 10})
    ends["read", 0] = 6
    assert watch.has_grown({0: 10})
    # the next batch is under way
    committed = 11
    assert not watch.has_grown({0: 10})


class Healthy:
    """A group that has always read and committed everything, while more records are produced."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.topic = live.new_topic(records=20)
        self.end = 20
        self.commit()

    def commit(self) -> None:
        self.live.commit_to("healthy", TopicPartition(self.topic, 0, self.end))

    def goes_on(self) -> None:
        """Twelve commits, each of everything that was produced so far."""
        for _ in range(12):
            self.live.produce(self.topic, 5)
            self.end += 5
            self.commit()


def lags(tables: dict[str, DataFrame]) -> list[int]:
    return [row["lag"] for row in tables["lag"].where("group = 'healthy'").collect()]


def test_a_group_that_commits_to_the_end_is_never_late(
    spark: SparkSession, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group continues while a batch is staged, before tables are made, and while they are made."""
    group = Healthy(live)

    def after(module: Any, name: str) -> None:
        original = getattr(module, name)

        def and_goes_on(*args: Any) -> Any:
            found = original(*args)
            group.goes_on()
            return found

        monkeypatch.setattr(module, name, and_goes_on)

    # the tables of this test, and the tables from which they are made
    monkeypatch.setattr(
        refresh,
        "MADE",
        ("commits", "generations", "memberships", "ownership", "rebalances", "regressions", "skips", *refresh.OF_NOW),
    )
    after(run, "request_state")
    after(refresh, "staged")
    follower = Follower(
        spark, Following(live.client, str(tmp_path), Wanted(groups=("healthy",)), once=True, page_every=0)
    )
    positions: list[Offsets] = []
    tend = follower._refresh_if_due

    def tend_late(*, last: bool = False) -> bool:
        if last:
            group.goes_on()
            positions.append(reached(follower.manifest))
        return tend(last=last)

    monkeypatch.setattr(follower, "_refresh_if_due", tend_late)
    follower.run()
    assert follower.manifest.has_ends
    assert follower.manifest.judged < follower.manifest.batch
    assert lags(follower.tables()) == [0]
    assert follower.tables()["stalls"].where("status <> 'OK'").count() == 0
    monkeypatch.undo()
    assert positions[-1].keys() == request_state(live.client).logged.keys()


def test_a_group_without_commits_falls_behind(
    spark: SparkSession,
    live: Live,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(
        refresh,
        "MADE",
        ("commits", "generations", "memberships", "ownership", "rebalances", "regressions", "skips", *refresh.OF_NOW),
    )
    monkeypatch.setattr(staging, "FEW_ROWS", 0)  # Spark makes the tables
    group = Healthy(live)
    following = Following(live.client, str(tmp_path), Wanted(groups=("healthy",)), once=True, page_every=0)
    Follower(spark, following).run()
    follower = Follower(spark, following._replace(once=False, trigger_ms=0))
    request.addfinalizer(follower._store.close)
    follower._refresh_if_due()
    assert set(lags(follower.tables())) == {0}
    follower._next_refresh_s = 0
    assert not follower._refresh_if_due()
    live.produce(group.topic, 7)
    assert follower._refresh_if_due()
    assert sum(lags(follower.tables())) == 7
    assert not follower.manifest.dirty


def test_a_long_analysis_makes_no_group_late(
    spark: SparkSession, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Healthy(live)
    write_decoded = stage.__globals__["write_decoded"]

    def slowly(*args: Any) -> Any:
        found = write_decoded(*args)
        group.goes_on()
        return found

    monkeypatch.setattr("muster.pipeline.stage.write_decoded", slowly)
    ends = stage(spark, Source(kafka=live.client), str(tmp_path / "cluster")).inputs.ends
    assert ends is not None
    committed = group.end - 60
    assert ends.where(f"topic = '{group.topic}'").agg({"end_offset": "max"}).collect()[0][0] == committed
    ends = stage(spark, Source(path=live.data_dir), str(tmp_path / "folder")).inputs.ends
    assert ends is not None
    assert ends.where(f"topic = '{group.topic}'").agg({"end_offset": "max"}).collect()[0][0] == committed + 60
