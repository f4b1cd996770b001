"""Processes that are forked while a server runs, threads that start a process at once, and a server that is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from muster.testing import CannotBeDone, Muster
from muster.testing.loop_bridge import FORKED

FORK = multiprocessing.get_context("fork")
MODES = [False, True]


def report_by_a_child(ask: Callable[[], object]) -> Any:
    """What a forked process reports; it ends as any Python program does."""
    pipe, child_pipe = FORK.Pipe()

    def run() -> None:
        try:
            child_pipe.send(ask())
        except Exception as error:  # noqa: BLE001  # it is sent to the test
            child_pipe.send(f"{type(error).__name__}: {error}")

    child = FORK.Process(target=run)
    child.start()
    assert pipe.poll(120), "the forked process says nothing"
    child.join(120)
    assert child.exitcode == 0
    return pipe.recv()


@pytest.mark.parametrize("process", MODES)
def test_verbs_in_a_forked_process_are_refused_with_the_reason(process: bool) -> None:
    with Muster(topics=["a"], process=process) as muster:
        for ask in (lambda: muster.topics, lambda: muster.group("g").state, muster.start, muster.kill):
            assert report_by_a_child(ask) == f"CannotBeDone: {FORKED}"
        assert report_by_a_child(lambda: muster.is_running) is False
        assert report_by_a_child(muster.stop) is None
        assert muster.topics == ["a"]


@pytest.mark.parametrize("process", MODES)
def test_a_forked_process_that_leaves_the_block_stops_no_server(process: bool) -> None:
    pid = 0
    try:
        with Muster(topics=["a"], process=process) as muster:
            pid = os.fork()
            if not pid:
                sys.exit(0)
            assert os.waitpid(pid, 0) == (pid, 0)
            assert muster.topics == ["a"]
    except SystemExit:
        if pid:
            raise
        os._exit(0)


def test_a_forked_process_has_a_server_of_its_own() -> None:
    def own() -> list[str]:
        with Muster(topics=["mine"]) as another:
            return another.topics

    with Muster(topics=["a"]) as muster:
        assert report_by_a_child(own) == ["mine"]
        assert muster.topics == ["a"]


def test_ports_and_connections_are_closed_while_a_forked_process_runs() -> None:
    with Muster(topics=["a"], nodes=2) as muster:
        before = muster.bootstrap_servers
        host, port = before.split(",")[1].split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            muster.coordinator("g")  # the server has accepted the connection
            wake, sleeper = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(sleeper)
                os.read(wake, 1)
                os._exit(0)
            os.close(wake)
            try:
                muster.nodes[1].kill()
                assert connection.recv(1) == b""
                muster.nodes[1].return_()
                muster.restart()
                assert muster.bootstrap_servers == before
                assert muster.topics == ["a"]
            finally:
                os.close(sleeper)
                os.waitpid(pid, 0)


@pytest.mark.parametrize("process", MODES)
def test_five_concurrent_starts_start_one_server(process: bool) -> None:
    muster = Muster(topics=["a"], process=process)
    gate = threading.Barrier(5)
    reported: list[str] = []

    def start() -> None:
        gate.wait()
        try:
            muster.start()
            reported.append("started")
        except CannotBeDone as refusal:
            reported.append(str(refusal))
        assert muster.is_running

    threads = [threading.Thread(target=start) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(reported) == ["started", *["the server runs already"] * 4]
    assert muster.topics == ["a"]
    muster.stop()
    muster.stop()
    assert not muster.is_running
    left = {thread.name for thread in threading.enumerate()}
    assert not left & {"muster", "muster-against", "muster-lines"}


def test_a_server_process_killed_from_outside_can_be_restarted() -> None:
    with Muster(process=True, topics=["a"]) as muster:
        muster.topic("a").produce("x")
        os.kill(muster.runner.pid, signal.SIGKILL)
        report = "the process of the server has ended: it was killed by SIGKILL"
        for ask in (
            lambda: muster.topics,
            lambda: muster.faults.list(),
            lambda: muster.group("g").wait_stable(members=1, timeout=20),
            muster.kill,
        ):
            with pytest.raises(CannotBeDone, match=report):
                ask()
        assert not muster.is_running
        muster.start()
        assert [record.text for record in muster.topic("a").records()] == ["x"]
        os.kill(muster.runner.pid, signal.SIGKILL)
        muster.restart()
        assert muster.topics == ["a"]


def test_a_wait_ends_when_the_server_process_is_killed() -> None:
    with Muster(process=True) as muster:
        threading.Timer(0.3, os.kill, (muster.runner.pid, signal.SIGKILL)).start()
        with pytest.raises(CannotBeDone, match="has ended: it was killed by SIGKILL"):
            muster.group("g").wait_stable(members=1, timeout=60)
