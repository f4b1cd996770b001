"""The plugin of pytest: fixtures `muster`, `muster_topic` and `muster_group`, the mark `muster`, options, and what the
server did in the report of a test that fails (docs/testing.md).

pytest loads this in every run where the distribution is installed, so it imports no server before a test needs one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from muster.testing.server import Muster
    from muster.testing.sync import Group, Topic

PARTITIONS: Final = 3
"""Of the topic that `muster_topic` makes, if the mark says nothing else."""
MOST_GROUPS: Final = 20
"""Whose timelines a report has."""
MOST_AHEAD_MS: Final = 1_000
"""How far a test may have moved the time of the session's server, before that is started again for the next one."""
MOST_NAME: Final = 100
"""Characters of a test's name in the names of its topics and groups."""
_FIXTURES: Final = {"muster", "muster_session", "muster_topic", "muster_group"}
_MARK: Final = (
    "muster(fresh=False, nodes=1, properties=None, topics=(), partitions=3, seed=None): the server of this test; with "
    "any of the first three, or a seed, it has one of its own"
)


class Wanted(NamedTuple):
    """What the mark of a test says."""

    fresh: bool = False
    nodes: int = 1
    properties: Mapping[str, Any] | None = None
    topics: Any = ()
    partitions: int = PARTITIONS
    seed: int | None = None

    @property
    def needs_own(self) -> bool:
        """Whether the server of the session will not do."""
        return self.fresh or self.nodes != 1 or bool(self.properties) or self.seed is not None


class Used(NamedTuple):
    """What a test has of a server: which one, and how many log lines and hits of rules that had before."""

    muster: Muster
    lines: int
    hits: int
    began_ms: int


_USED: Final = pytest.StashKey[Used]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("muster", "Muster, a Kafka group coordinator for tests")
    group.addoption(
        "--muster-record",
        metavar="DIR",
        help="keep the logs of the servers in this directory, for `muster analyze DIR/…`",
    )
    group.addoption(
        "--muster-against",
        metavar="HOST:PORT",
        help="run the tests on the Kafka cluster there; what only Muster can do is skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", _MARK)


# ---- fixtures


@pytest.fixture(scope="session")
def muster_properties() -> Mapping[str, Any]:
    """Properties of the server of the session, by Kafka's names: to be overridden in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def muster_session(request: pytest.FixtureRequest, muster_properties: Mapping[str, Any]) -> Iterator[Muster]:
    """The server of the session itself: for fixtures of a session, a module or a class."""
    # imported here, and below: see the module
    from muster.testing.server import Muster

    config = request.config
    against = config.getoption("--muster-against")
    if against:
        from muster.testing.against import Against

        server = Muster(runner=Against(against))
    else:
        worker = getattr(config, "workerinput", {}).get("workerid")
        server = Muster(muster_properties, directory=_record(config, f"session-{worker}" if worker else "session"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def muster(request: pytest.FixtureRequest) -> Iterator[Muster]:
    """A server: that of the session, or one of the test's own if its mark `muster` asks for it."""
    wanted = _wanted(request.node)
    own = wanted.needs_own
    against = request.config.getoption("--muster-against")
    if own and against:
        pytest.skip("this test needs a server of its own, and runs on a cluster that is there (--muster-against)")
    server = _own(request.node, wanted) if own else request.getfixturevalue("muster_session")
    for name, partitions in _topics(wanted.topics):
        if not own:
            _ensure(server, name, partitions)
    hits = server.portal.call(lambda: server.verbs().hits)
    request.node.stash[_USED] = Used(server, server.lines.count, hits, _wall_ms())
    try:
        yield server
    finally:
        if own:
            server.stop()
        elif server.is_running:
            server.tidy()
            if abs(server.portal.call(lambda: server.verbs().ahead_ms)) > MOST_AHEAD_MS:
                server.restart()  # time never goes back: the next test has a clock of its own
        else:
            server.start()


@pytest.fixture
def muster_topic(request: pytest.FixtureRequest, muster: Muster) -> Iterator[Topic]:
    """A topic of this test alone, made for it and deleted after it."""
    topic = muster.topic(_name(request)).create(_wanted(request.node).partitions)
    yield topic
    if muster.is_running and topic.name in muster.topics:
        topic.delete()


@pytest.fixture
def muster_group(request: pytest.FixtureRequest, muster: Muster) -> Group:
    """A group of this test alone."""
    return muster.group(_name(request))


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test that uses a fixture of this plugin, if no plugin for asynchronous tests has taken it.

    Such plugins come before this hook; without one, or without its mark, pytest would fail the test.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or not _FIXTURES & {*pyfuncitem.fixturenames}:
        return None
    import asyncio

    wanted = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted if name in pyfuncitem.funcargs}))
    return True


def _wanted(item: pytest.Item) -> Wanted:
    mark = item.get_closest_marker("muster")
    if mark is None:
        return Wanted()
    if mark.args or mark.kwargs.keys() - set(Wanted._fields):
        raise pytest.UsageError(f"{item.nodeid}: the mark is {_MARK}")
    return Wanted(**mark.kwargs)


def _own(item: pytest.Item, wanted: Wanted) -> Muster:
    from muster.testing.server import Muster

    return Muster(
        wanted.properties,
        topics=wanted.topics,
        nodes=wanted.nodes,
        seed=wanted.seed,
        directory=_record(item.config, _slug(item.nodeid)),
    ).start()


def _record(config: pytest.Config, name: str) -> Path | None:
    given = config.getoption("--muster-record")
    return None if given is None else Path(given) / name


def _topics(given: Any) -> Iterator[tuple[str, int | None]]:
    if isinstance(given, Mapping):
        yield from given.items()
    else:
        yield from ((name, None) for name in ((given,) if isinstance(given, str) else given))


def _ensure(server: Muster, name: str, partitions: int | None) -> None:
    if name not in server.topics:
        server.topic(name).create(partitions)


def _name(request: pytest.FixtureRequest) -> str:
    """Of a test, as a topic may be called; another one each time, so that a test can be run again on one server."""
    counter = request.config.stash.setdefault(_COUNTER, [0])
    counter[0] += 1
    worker = getattr(request.config, "workerinput", {}).get("workerid", "")
    return f"{_slug(request.node.name)[:MOST_NAME]}-{worker}{counter[0]}"


_COUNTER: Final = pytest.StashKey[list[int]]()


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "test"


def _wall_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


# ---- reports


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What cannot be done on the cluster that is there is no failure."""
    if not item.config.getoption("--muster-against"):
        return (yield)
    from muster.testing.against import OnlyMuster

    try:
        return (yield)
    except OnlyMuster as reason:
        pytest.skip(str(reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed tells what its groups did and what the server warned of."""
    report = yield
    used = item.stash.get(_USED, None)
    if report.failed and used is not None and call.when == "call":
        report.sections += _sections(used)
    return report


def _sections(used: Used) -> Iterator[tuple[str, str]]:
    warnings = used.muster.lines.warnings(used.lines)
    if warnings:
        yield "Muster: warnings of the server", "\n".join(map(str, warnings))
    if not used.muster.is_running:
        yield "Muster: groups", "the server did not run any more"
        return
    from muster.coordinator.rehearsal.errors import CannotBeDone

    done = used.muster.portal.call(lambda: used.muster.verbs().meddling(used.hits))
    if done:
        yield "Muster: what the test has done to the server", "\n".join(done)
    told = 0
    for group_id in used.muster.groups:
        group = used.muster.group(group_id)
        try:
            events = group.events()
        except CannotBeDone:
            return  # a cluster that keeps no history
        if events and events[-1]["time"] >= used.began_ms and told < MOST_GROUPS:
            told += 1
            yield f"Muster: group {group_id}", "\n".join([str(group.describe()), "", *group.history(everything=True)])
