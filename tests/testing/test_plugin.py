"""The plugin of pytest, on small test suites of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.testing import Muster

INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""
CONSUMER = """
import asyncio
import pytest
from aiokafka import AIOKafkaConsumer

class consuming:
    def __init__(self, muster, topic, group_id, **more):
        self.consumer = AIOKafkaConsumer(topic, bootstrap_servers=muster.bootstrap_servers, group_id=group_id,
                                         auto_offset_reset="earliest", **more)
    async def __aenter__(self):
        await self.consumer.start()
        return self.consumer
    async def __aexit__(self, *_):
        await self.consumer.stop()
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makefile(".ini", pytest=INI)
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


def test_tests_share_a_server_and_have_names_of_their_own(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        CONSUMER
        + """
seen = []

@pytest.mark.parametrize("number", [1, 2])
def test_sync(muster, muster_topic, muster_group, number):
    assert muster_topic.end_offsets() == {0: 0, 1: 0, 2: 0}
    seen.append((muster.bootstrap_servers, muster_topic.name, muster_group.id))
    assert muster.topics == [muster_topic.name]

async def test_async(muster, muster_topic, muster_group):
    async with consuming(muster, muster_topic.name, muster_group.id):
        view = await muster_group.aio.wait_stable(members=1, partitions=muster_topic.name)
        assert len(view.assignment[muster_topic.name]) == 3
    muster_group.hold_joins()  # and never released: the next test does not notice
    seen.append((muster.bootstrap_servers, muster_topic.name, muster_group.id))

@pytest.mark.muster(partitions=5, topics={"shared": 2})
def test_marked(muster, muster_topic):
    assert len(muster_topic.end_offsets()) == 5
    assert len(muster.topic("shared").end_offsets()) == 2

@pytest.mark.muster(topics="shared")
def test_it_goes_on_after_a_kill(muster):
    assert "shared" in muster.topics
    muster.kill()

def test_last(muster):
    assert muster.is_running
    assert len({one[0] for one in seen}) == 1
    assert len({one[1] for one in seen}) == len({one[2] for one in seen}) == 3
"""
    )
    run(suite).assert_outcomes(passed=6)


def test_a_marked_test_has_a_server_of_its_own(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
import pytest

seen = []

@pytest.mark.muster(fresh=True, topics={"orders": 4})
def test_fresh(muster):
    seen.append(muster.bootstrap_servers)
    assert muster.topics == ["orders"]

@pytest.mark.muster(nodes=3, properties={"group.max.size": 2})
def test_nodes(muster):
    seen.append(muster.bootstrap_servers)
    assert len(muster.nodes) == 3
    assert muster.topics == []
    muster.kill()

@pytest.mark.muster(seed=7)
@pytest.mark.parametrize("time", [1, 2])
def test_seed(muster, muster_topic, time):
    seen.append(muster.bootstrap_servers)

def test_session(muster):
    assert muster.bootstrap_servers not in seen
    assert len(set(seen)) == 4
"""
    )
    run(suite).assert_outcomes(passed=5)


def test_the_session_fixture_serves_other_session_fixtures(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
import pytest

@pytest.fixture(scope="session")
def muster_properties():
    return {"num.partitions": 7}

@pytest.fixture(scope="module")
def orders(muster_session):
    return muster_session.topic("orders").create()
"""
    )
    suite.makepyfile(
        """
def test_it(orders, muster, muster_session):
    assert len(orders.end_offsets()) == 7
    assert muster is muster_session
"""
    )
    run(suite).assert_outcomes(passed=1)


def test_an_invalid_mark_is_refused(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
import pytest

@pytest.mark.muster(node=3)
def test_it(muster):
    pass
"""
    )
    result = run(suite)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the mark is muster(fresh=False, nodes=1*"])


def test_a_failed_test_reports_the_groups_and_the_log(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        CONSUMER
        + """
import structlog

async def test_before(muster, muster_topic, muster_group):
    async with consuming(muster, muster_topic.name, "of-the-test-before"):
        await muster.aio.group("of-the-test-before").wait_stable(members=1)

async def test_it(muster, muster_topic):
    def warn():
        from muster.coordinator.server import process
        process.log.warning("something is wrong", what="it")
    await muster.bridge.awaited(warn)
    async with consuming(muster, muster_topic.name, "billing", client_id="lonely"):
        await muster.aio.group("billing").wait_stable(members=2, timeout=0.2)

async def test_meddled(muster, muster_group):
    from muster.testing.faults import Match, Delay
    with muster.faults.add(Match(api="JoinGroup", group=muster_group.id), Delay(1), name="late"):
        async with consuming(muster, "orders", muster_group.id, client_id="delayed"):
            await muster_group.aio.wait_stable(members=1)
    assert False

@pytest.mark.muster(fresh=True)
def test_stopped(muster):
    muster.stop()
    assert False, "for a reason of its own"

def test_without():
    assert False
"""
    )
    result = run(suite)
    result.assert_outcomes(passed=1, failed=4)
    text = result.stdout.str()
    assert "(late) hit 2 JoinGroup requests of client delayed: the request was kept for 1 ms" in text
    assert text.count("what the test has done to the server") == 1
    assert "muster.testing.WaitFailed: group billing" in text
    assert "group billing: this was not true after 0.2 s: is stable with 2 members" in text
    assert "Muster: group billing" in text
    assert "client lonely" in text
    assert "Muster: warnings of the server" in text
    assert "warning muster.server: something is wrong what=it" in text
    assert "the server did not run any more" in text
    assert "of-the-test-before" not in text
    assert text.count("Muster: groups") == 1


def test_logs_of_failed_tests_are_kept(suite: pytest.Pytester, tmp_path: Path) -> None:
    suite.makepyfile(
        """
import pytest

def test_session(muster, muster_topic):
    muster_topic.produce("x")

@pytest.mark.muster(fresh=True, topics=["orders"])
def test_fresh(muster):
    muster.topic("orders").produce("x")
"""
    )
    run(suite, f"--muster-record={tmp_path}").assert_outcomes(passed=2)
    kept = sorted(one.name for one in tmp_path.iterdir())
    assert kept == ["session", "test_logs_of_failed_tests_are_kept.py-test_fresh"]
    with Muster(directory=tmp_path / kept[1]) as again:
        assert [one.text for one in again.topic("orders").records()] == ["x"]


@pytest.fixture
def cluster() -> Iterator[Muster]:
    with Muster() as found:
        yield found


def test_the_plugin_works_against_a_cluster(suite: pytest.Pytester, cluster: Muster) -> None:
    suite.makepyfile(
        CONSUMER
        + """
async def test_it(muster, muster_topic, muster_group):
    async with consuming(muster, muster_topic.name, muster_group.id):
        view = await muster_group.aio.wait_stable(members=1, partitions=muster_topic.name)
    assert len(view.assignment[muster_topic.name]) == 3

def test_forced(muster_group):
    muster_group.rebalance()

@pytest.mark.muster(fresh=True)
def test_fresh(muster):
    pass

def test_wrong(muster_topic):
    assert muster_topic.end_offsets() == {}
"""
    )
    result = run(suite, "-rs", f"--muster-against={cluster.bootstrap_servers}")
    result.assert_outcomes(passed=1, skipped=2, failed=1)
    text = result.stdout.str()
    assert "a rebalance can be forced only on a Muster" in text
    assert "this test needs a server of its own" in text
    assert [name for name in cluster.topics if not name.startswith("test_wrong")] == []


def test_the_plugin_works_with_xdist(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(muster, muster_topic, muster_group, worker_id, number):
    assert f"-{worker_id}" in muster_topic.name
    muster_topic.produce("x")
"""
    )
    result = suite.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2")
    result.assert_outcomes(passed=4)


def test_the_server_is_not_imported_without_a_test_that_uses_it(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
import sys

def test_it():
    server = ("muster.coordinator", "muster.cli", "muster.client", "muster.postgres", "muster.testcontrol")
    assert not [name for name in sys.modules if name.startswith(server)]
"""
    )
    suite.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_plugin_works_with_unittest(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
import unittest
from muster.testing import MusterTestCase

class Shared(MusterTestCase):
    muster_topics = {"orders": 2}

    def test_one(self):
        self.muster.topic("orders").produce("x", partition=0)

    def test_two(self):
        self.assertEqual(self.muster.topic("orders").end_offsets(), {0: 1, 1: 0})

class Fresh(MusterTestCase):
    muster_fresh = True
    muster_topics = {"orders": 1}
    muster_properties = {"group.max.size": 1}

    def test_one(self):
        self.muster.topic("orders").produce("x")
        self.assertEqual(self.muster.topic("orders").end_offsets(), {0: 1})

    test_two = test_one
"""
    )
    run(suite).assert_outcomes(passed=4)


def test_groups_and_topics_of_an_earlier_test_are_removed(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
import pytest
from muster.testing.faults import Delay, Hold, Match

def leave_everything(muster, muster_group):
    muster.faults.add(Match(), Delay(50))
    muster.faults.add(Match(group="x"), Hold())
    muster.scenario("disk-full")
    muster_group.hold_joins()
    muster.time.freeze()
    muster.time.advance(3_600_000)

def test_leaves_everything(muster, muster_group):
    leave_everything(muster, muster_group)

def is_clean(muster, muster_topic, muster_group):
    now = muster.time.now()
    assert (muster.faults.list(), now.frozen, abs(now.ahead_ms) < 1_000) == ([], False, True)
    assert not any(muster.bridge.call(lambda: muster.verbs().joins.holds(one)) for one in muster.groups)
    assert muster_topic.produce("x")

def test_after_it(muster, muster_topic, muster_group):
    is_clean(muster, muster_topic, muster_group)

def test_leaves_everything_and_fails(muster, muster_group):
    leave_everything(muster, muster_group)
    assert False, "in the middle"

def test_after_that(muster, muster_topic, muster_group):
    is_clean(muster, muster_topic, muster_group)

def test_leaves_it_and_stops_the_server(muster, muster_group):
    leave_everything(muster, muster_group)
    muster.kill()

def test_after_a_stop(muster, muster_topic, muster_group):
    is_clean(muster, muster_topic, muster_group)

@pytest.fixture
def broken(muster, muster_group):
    leave_everything(muster, muster_group)
    raise LookupError("in a fixture")

def test_whose_fixture_fails(broken):
    pass

def test_after_a_fixture(muster, muster_topic, muster_group):
    is_clean(muster, muster_topic, muster_group)

def test_is_interrupted(muster, muster_group):
    leave_everything(muster, muster_group)
    raise KeyboardInterrupt
"""
    )
    result = suite.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=6, failed=1, errors=1)
    assert "KeyboardInterrupt" in result.stdout.str()
    assert result.ret == pytest.ExitCode.INTERRUPTED
