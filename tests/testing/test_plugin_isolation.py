"""What each test has for itself with the pytest plugin: topics, names, recordings, the log of faults, its report."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from muster.testing import Muster
from muster.testing.against import Against
from muster.testing.marked_topics import on_cluster

ASK = """
import pytest
from muster.testing import Muster
from muster.testing.against import Against
from muster.testing.faults import Call, Delay, Match

def ask(muster):
    # ListGroups, once
    with Muster(runner=Against(muster.bootstrap_servers)) as client:
        client.groups
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makefile(".ini", pytest="[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


@pytest.fixture
def cluster() -> Iterator[Muster]:
    with Muster() as found:
        yield found


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


COUNTS = """
import pytest

@pytest.mark.muster(topics={"orders": 3})
def test_one(muster):
    muster.topic("orders").produce("left by the first")
    assert len(muster.topic("orders").end_offsets()) == 3

@pytest.mark.muster(topics={"orders": 6})
def test_two(muster):
    assert muster.topic("orders").end_offsets() == dict.fromkeys(range(6), 0)
    muster.topic("orders").produce("left by the second")
    assert False, "and it fails"

@pytest.mark.muster(topics=["orders:4", "more"])
def test_three(muster):
    assert muster.topic("orders").end_offsets() == dict.fromkeys(range(4), 0)
    assert len(muster.topic("more").end_offsets()) == 1

def test_none(muster):
    assert muster.topics == []

def test_makes_one_itself(muster):
    muster.topic("orders").create(2).produce("x")

@pytest.mark.muster(topics="orders")
def test_after_it(muster):
    assert muster.topic("orders").end_offsets() == {0: 0}
"""


def test_topics_of_the_mark_belong_to_one_test(suite: pytest.Pytester) -> None:
    suite.makepyfile(COUNTS)
    run(suite).assert_outcomes(passed=5, failed=1)


NAMES = """
import pytest

@pytest.mark.muster(topics={"orders": 2})
@pytest.mark.parametrize("number", range(3))
def test_it(muster, muster_topic, muster_group, number):
    for topic in (muster.topic("orders"), muster_topic):
        assert topic.records() == []
        topic.produce("x")
    assert muster_group.offsets == {}
    muster_group.reset_offsets("latest", "orders")
    muster.topic("remember-" + muster_topic.name).create()
"""


def test_two_runs_on_one_cluster_do_not_collide(suite: pytest.Pytester, cluster: Muster) -> None:
    suite.makepyfile(NAMES)
    for _ in range(2):
        run(suite, f"--muster-against={cluster.bootstrap_servers}").assert_outcomes(passed=3)
    assert len(cluster.topics) == 6
    assert all(name.startswith("remember-test_it-") for name in cluster.topics)


def test_workers_use_a_topic_of_a_cluster_one_after_another(cluster: Muster) -> None:
    """Each worker is a process with a connection of its own, like the threads here."""
    entered: list[str] = []
    others = threading.Event()

    def use(name: str) -> None:
        with (
            Muster(runner=Against(cluster.bootstrap_servers)) as server,
            on_cluster(server, {"orders": 2, "more": None}),
        ):
            assert server.topic("orders").records() == []
            entered.append(name)
            server.topic("orders").produce(name)
            if len(entered) == 1:
                others.wait(120)
            assert [record.text for record in server.topic("orders").records()] == [name]
            entered.append(name)

    with ThreadPoolExecutor(3) as threads:
        uses = [threads.submit(use, name) for name in ("a", "b", "c")]
        while not entered:
            assert not any(one.done() for one in uses)
        others.set()
        for one in uses:
            one.result(120)
    assert entered == [name for name in dict.fromkeys(entered) for _ in range(2)]
    assert cluster.topics == []


def test_an_existing_topic_of_a_cluster_is_not_changed(suite: pytest.Pytester, cluster: Muster) -> None:
    suite.makepyfile(NAMES)
    against = f"--muster-against={cluster.bootstrap_servers}"
    topic = cluster.topic("orders").create(2)
    # it is empty and has the wanted form: it is used, and stays
    run(suite, against).assert_outcomes(passed=3)
    assert "orders" in cluster.topics
    assert topic.records() == []
    topic.produce("of somebody else")
    result = run(suite, against)
    result.assert_outcomes(errors=3)
    wants = "the mark of the test wants an empty topic orders with 2 partitions"
    result.stdout.fnmatch_lines([f"*{wants}, and {cluster.bootstrap_servers} has one with 2 partitions and 1 records*"])
    assert [record.text for record in topic.records()] == ["of somebody else"]
    topic.delete()
    cluster.topic("orders").create(5)
    run(suite, against).assert_outcomes(errors=3)
    assert len(cluster.topic("orders").end_offsets()) == 5


def test_a_topic_left_by_a_killed_test_is_removed(suite: pytest.Pytester, cluster: Muster) -> None:
    suite.makepyfile(
        test_killed="""
import os
import pytest

@pytest.mark.muster(topics={"orders": 2})
def test_it(muster):
    muster.topic("orders").produce("left")
    os._exit(1)
""",
        test_names=NAMES,
    )
    against = f"--muster-against={cluster.bootstrap_servers}"
    suite.runpytest_subprocess("-p", "no:cacheprovider", against, "test_killed.py")
    assert len(cluster.topic("orders").records()) == 1
    run(suite, against, "test_names.py").assert_outcomes(passed=3)
    assert "orders" not in cluster.topics


def test_tests_with_verbs_unsupported_on_a_cluster_are_skipped(suite: pytest.Pytester, cluster: Muster) -> None:
    suite.makepyfile(
        ASK
        + """
@pytest.fixture
def slow(muster):
    muster.faults.add(Match(), Delay(1))

def test_it(slow):
    pass
"""
    )
    run(suite, f"--muster-against={cluster.bootstrap_servers}").assert_outcomes(skipped=1)


def test_recordings_of_two_tests_are_separate(suite: pytest.Pytester, tmp_path: Path) -> None:
    suite.makepyfile(
        """
import pytest

@pytest.mark.muster(fresh=True, topics={"orders": 1})
@pytest.mark.parametrize("x", ["a/b", "a b", "long" * 100])
def test_own(muster, x):
    assert muster.topic("orders").records() == []
    muster.topic("orders").produce(x)

@pytest.mark.muster(topics={"orders": 1})
def test_session(muster):
    assert muster.groups == []
    muster.group("g").reset_offsets("earliest", "orders")
"""
    )
    for _ in range(2):
        run(suite, f"--muster-record={tmp_path}").assert_outcomes(passed=4)
    names = {one.name for one in tmp_path.iterdir()}
    assert {"session", "session-2"} <= names
    assert len([name for name in names if "test_own" in name]) == 6
    kept = [Muster(directory=one) for one in tmp_path.iterdir() if one.name.startswith("test_")]
    texts = set()
    for server in kept:
        with server:
            texts.add(*(record.text for record in server.topic("orders").records()))
    assert texts == {"a/b", "a b", "long" * 100}


def test_a_failing_fixture_reports_the_server_log(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        ASK
        + """
@pytest.fixture
def app(muster):
    muster.faults.add(Match(api="ListGroups"), Delay(1), name="slow")
    ask(muster)
    assert False, "it did not get ready"

def test_setup(app):
    pass

@pytest.fixture
def late(muster):
    yield
    muster.faults.add(Match(api="ListGroups"), Delay(1), name="late")
    ask(muster)
    muster.bridge.call(warn)
    assert False, "it did not end"

def warn():
    from muster.coordinator.server import process
    process.log.warning("something is wrong", what="it")

def test_teardown(late):
    pass

@pytest.mark.muster(fresh=True)
def test_teardown_of_its_own(late):
    pass

@pytest.fixture(scope="module")
def of_module(muster_session):
    muster_session.faults.add(Match(api="ListGroups"), Delay(1), name="early")
    ask(muster_session)
    assert False, "the module did not get ready"

def test_module(of_module):
    pass

def test_last(late):
    pass
"""
    )
    result = run(suite)
    result.assert_outcomes(passed=3, errors=5)
    sections = result.stdout.str().split("____ ERROR at ")[1:]
    assert len(sections) == 5
    for section, rule in zip(sections, ("slow", "late", "late", "early", "late"), strict=True):
        assert "Muster: what the test has done to the server" in section
        assert f"({rule}) hit 1 ListGroups request of client muster: the request was kept for 1 ms" in section
        assert ("warning muster.server: something is wrong what=it" in section) == (rule == "late")


def test_the_log_of_faults_belongs_to_one_test(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        ASK
        + """
@pytest.mark.parametrize("number", [1, 2])
def test_it(muster, number):
    assert muster.faults.log() == []
    fault = muster.faults.add(Match(api="ListGroups"))
    ask(muster)
    assert [hit["api"] for hit in muster.faults.log()] == ["ListGroups"]
    assert fault.log() == muster.faults.log()
    assert muster.faults.log(muster.faults.log()[0]["number"]) == []
"""
    )
    run(suite).assert_outcomes(passed=2)


def test_an_error_raised_in_a_fault_rule_fails_the_test(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        ASK
        + """
import unittest
from muster.testing import MusterTestCase

def boom(request):
    assert request.api == "mine"

def refuses(request):
    pytest.fail("by pytest")

def test_call(muster):
    muster.faults.add(Match(api="ListGroups"), Call(boom))
    ask(muster)  # which is answered

def test_predicate(muster):
    muster.faults.add(Match(api="ListGroups", predicate=boom), Delay(1))
    ask(muster)

def test_fail(muster):
    muster.faults.add(Match(api="ListGroups"), Call(refuses))
    ask(muster)

def test_block(muster):
    with pytest.raises(AssertionError):
        with muster.faults.add(Match(api="ListGroups"), Call(boom)):
            ask(muster)

def test_fails_anyway(muster):
    muster.faults.add(Match(api="ListGroups"), Call(boom))
    ask(muster)
    raise LookupError("of the test")

def test_fails_by_pytest(muster):
    muster.faults.add(Match(api="ListGroups"), Call(boom))
    ask(muster)
    pytest.fail("of pytest")

def test_stopped():
    with pytest.raises(AssertionError):
        with Muster() as muster:
            muster.faults.add(Match(api="ListGroups"), Call(boom))
            ask(muster)
            muster.stop()

class Case(MusterTestCase):
    def test_case(self):
        self.muster.faults.add(Match(api="ListGroups"), Call(boom))
        ask(self.muster)

@pytest.fixture
def late(muster):
    yield
    muster.faults.add(Match(api="ListGroups"), Call(boom))
    ask(muster)

def test_teardown(late):
    pass

def test_after_it(muster):
    assert muster.lines.warnings()
"""
    )
    result = run(suite)
    result.assert_outcomes(passed=4, failed=6, errors=1)
    text = result.stdout.str()
    assert text.count('assert request.api == "mine"') >= 4
    assert "by pytest" in text
    assert "LookupError: of the test" in text
    assert "and a function of a rule of faults raised AssertionError" in text


def test_a_topic_is_removed_after_a_test_that_kills_the_server(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
def test_kills(muster, muster_topic):
    muster_topic.produce("x")
    muster.kill()

def test_after_it(muster):
    assert muster.topics == []
"""
    )
    run(suite).assert_outcomes(passed=2)


def test_a_server_of_its_own_has_the_properties_of_the_session(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
import pytest

@pytest.fixture(scope="session")
def muster_properties():
    return {"num.partitions": 7, "group.max.size": 2}
"""
    )
    suite.makepyfile(
        """
import pytest

@pytest.mark.muster(properties={"group.max.size": 5}, topics=["orders"])
def test_it(muster):
    assert len(muster.topic("orders").end_offsets()) == 7
    config = muster.verbs().server.config
    assert (config.text("group.max.size"), config.text("num.partitions")) == ("5", "7")
"""
    )
    run(suite).assert_outcomes(passed=1)


def test_a_test_that_forks_and_exits_does_not_affect_the_session(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
import os, sys

def test_forks(muster, muster_topic):
    pid = os.fork()
    if not pid:
        sys.exit(0)
    os.waitpid(pid, 0)
    assert muster_topic.produce("x")

def test_after_it(muster, muster_topic):
    assert muster_topic.produce("x")
"""
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--tb=no"]
    done = subprocess.run(
        [*command, str(suite.path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout.decode()


def test_the_test_cluster_answers_each_request_of_against(cluster: Muster) -> None:
    with Muster(runner=Against(cluster.bootstrap_servers)) as against:
        topics = against.verbs().topics
        first = against.topic("t").create(2)
        first.produce("a", "b", "c")
        before = topics.topic_id("t")
        topics.trim("t")
        assert first.records() == []
        assert first.end_offsets() == topics.start_offsets("t") == {0: 2, 1: 1}
        first.delete()
        first.create(1)
        assert topics.topic_id("t") != before
