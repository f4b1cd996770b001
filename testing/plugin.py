"""The pytest plugin has the fixtures `muster`, `muster_topic` and `muster_group`, the mark `muster`, and options. It
adds the actions of the server to the report of a failed test (docs/testing.md).

The plugin is loaded in every run where the distribution is installed. So it imports no server before a test needs one.
"""

from __future__ import annotations

import inspect
import os
import re
import secrets
import time
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from muster.testing.group_handles import Group
    from muster.testing.handles import Topic
    from muster.testing.reports import Used
    from muster.testing.server import Muster

PARTITIONS: Final = 3
"""How many partitions the topic of `muster_topic` has by default."""
MAX_AHEAD_MS: Final = 1_000
"""How far a test may advance the time of the session's server. If it is further ahead, the server restarts for the next
test.
"""
MAX_NAME: Final = 100
"""The most characters of a test's name in the names of its topics, groups and recordings."""
RUN_BYTES: Final = 3
_FIXTURES: Final = {"muster", "muster_session", "muster_topic", "muster_group"}
_MARK: Final = (
    "muster(fresh=False, nodes=1, properties=None, topics=(), partitions=3, seed=None): the server of this test; a "
    "test with fresh, nodes, properties or seed gets a server of its own"
)


class Wanted(NamedTuple):
    """The arguments of a test's mark `muster`."""

    fresh: bool = False
    nodes: int = 1
    properties: Mapping[str, Any] | None = None
    topics: Any = ()
    partitions: int = PARTITIONS
    seed: int | None = None

    @property
    def needs_own(self) -> bool:
        """Whether the test needs a server of its own."""
        return self.fresh or self.nodes != 1 or bool(self.properties) or self.seed is not None


_USED: Final = pytest.StashKey["Used"]()
_SESSION: Final = pytest.StashKey["Muster"]()
_LAST: Final = pytest.StashKey["Used"]()
_BEGAN_MS: Final = pytest.StashKey[int]()
_RUN: Final = pytest.StashKey[str]()
_LEFT: Final = pytest.StashKey[str]()
_PID: Final = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("muster", "Muster, a Kafka group coordinator for tests")
    group.addoption(
        "--muster-record",
        metavar="DIR",
        help="keep the logs of the servers in this directory, for `muster analyze DIR/…`",
    )
    group.addoption(
        "--muster-against",
        "--against",
        metavar="HOST:PORT",
        help="run the tests on this Kafka cluster, and skip tests of what only Muster can do; "
        "`--pyargs muster.conform` compares this cluster with Kafka",
    )
    group.addoption(
        "--muster-command-config",
        metavar="FILE",
        type=Path,
        help="properties with security.protocol, sasl.* and ssl.* for `--pyargs muster.conform`",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark `muster`, and refuse a wrong address."""
    config.addinivalue_line("markers", _MARK)
    config.stash[_PID] = os.getpid()
    against = config.getoption("--muster-against")
    if against is not None:
        # imports stand inside functions; the module's docstring says why
        from muster.coordinator.config import ConfigError
        from muster.coordinator.config.listeners import parse_addresses

        try:
            parse_addresses(against, "--muster-against")
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None


# ---- fixtures


@pytest.fixture(scope="session")
def muster_properties() -> Mapping[str, Any]:
    """The properties of the session's server, by Kafka's names. A conftest.py may override this fixture."""
    return {}


@pytest.fixture(scope="session")
def muster_session(request: pytest.FixtureRequest, muster_properties: Mapping[str, Any]) -> Iterator[Muster]:
    """The server of the session, for fixtures with the scope of a session, a module or a class."""
    # imports stand inside functions; the module's docstring says why
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
    config.stash[_SESSION] = server
    try:
        yield server
    finally:
        last = config.stash.get(_LAST, None)
        if last is not None and not _is_forked(config):
            last.keep()  # the report of the last test may still need the server
        server.stop()


@pytest.fixture
def muster(request: pytest.FixtureRequest) -> Iterator[Muster]:
    """A server: that of the session, or one for this test alone if its mark `muster` demands that."""
    wanted = _wanted(request.node)
    if wanted.needs_own:
        if request.config.getoption("--muster-against"):
            pytest.skip("this test needs a server of its own, and runs on an existing cluster (--muster-against)")
        yield from _own(request, wanted)
    else:
        yield from _of_session(request, wanted)


def _own(request: pytest.FixtureRequest, wanted: Wanted) -> Iterator[Muster]:
    from muster.testing.reports import Used
    from muster.testing.server import Muster

    item: pytest.Item = request.node
    of_session: Mapping[str, Any] = request.getfixturevalue("muster_properties")
    server = Muster(
        {**of_session, **(wanted.properties or {})},
        topics=wanted.topics,
        nodes=wanted.nodes,
        seed=wanted.seed,
        directory=_record(item.config, _slug(item.nodeid)),
    ).start()
    used = item.stash[_USED] = Used(server, item.stash[_BEGAN_MS])
    try:
        yield server
    finally:
        if not _is_forked(item.config):
            used.keep()
            try:
                server.raise_failure()
            finally:
                server.stop()


def _of_session(request: pytest.FixtureRequest, wanted: Wanted) -> Iterator[Muster]:
    from muster.testing import marked_topics
    from muster.testing.reports import Used

    server: Muster = request.getfixturevalue("muster_session")
    config = request.config
    there = marked_topics.on_cluster if config.getoption("--muster-against") else marked_topics.on_own_server
    with ExitStack() as stack:
        if wanted.topics:
            stack.enter_context(there(server, marked_topics.named(wanted.topics)))
        used = Used(server, request.node.stash[_BEGAN_MS])
        request.node.stash[_USED] = config.stash[_LAST] = used
        try:
            yield server
        finally:
            if _is_forked(config):
                stack.pop_all()  # only the process that owns the server cleans up
            else:
                used.keep_done()
                try:
                    server.raise_failure()
                finally:
                    _ready_for_the_next(server, used, request.node.stash.get(_LEFT, ""))


def _ready_for_the_next(server: Muster, used: Used, left: str) -> None:
    if not server.is_running:
        used.keep()
        server.start()
        if left in server.topics:
            server.topic(left).delete()
        return
    server.tidy()
    if abs(server.bridge.call(lambda: server.verbs().ahead_ms)) > MAX_AHEAD_MS:
        server.restart()  # the server's time cannot go back, so a restart gives the next test a new clock


@pytest.fixture
def muster_topic(request: pytest.FixtureRequest, muster: Muster) -> Iterator[Topic]:
    """A topic for this test alone, which is deleted after the test."""
    topic = muster.topic(_name(request)).create(_wanted(request.node).partitions)
    yield topic
    if _is_forked(request.config):
        return
    if muster.is_running and topic.name in muster.topics:
        topic.delete()
    elif not muster.is_running:
        request.node.stash[_LEFT] = topic.name  # a later test deletes the topic when the server runs again


@pytest.fixture
def muster_group(request: pytest.FixtureRequest, muster: Muster) -> Group:
    """A group for this test alone."""
    return muster.group(_name(request))


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test that uses a fixture of this plugin, unless a plugin for asynchronous tests runs it.

    A plugin for asynchronous tests runs before this hook. Without such a plugin, or without its mark, pytest would fail
    the test.
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


def _record(config: pytest.Config, name: str) -> Path | None:
    """Make a new directory with this name. A number follows if other tests, workers or runs have used the name."""
    given = config.getoption("--muster-record")
    if given is None:
        return None
    for number in count(1):
        found = Path(given) / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            found.mkdir(parents=True)
            return found
    raise AssertionError("there is always another number")


def _name(request: pytest.FixtureRequest) -> str:
    """A new name for a topic or group, made from the test's name. On a cluster that several runs use, it differs in
    each run.
    """
    config = request.config
    counter = config.stash.setdefault(_COUNTER, [0])
    counter[0] += 1
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    name = f"{_slug(request.node.name)}-{worker}{counter[0]}"
    return f"{name}-{_run(config)}" if config.getoption("--muster-against") else name


def _run(config: pytest.Config) -> str:
    if _RUN not in config.stash:
        # not drawn from `random`, because tests give `random` a seed
        config.stash[_RUN] = secrets.token_hex(RUN_BYTES)
    return config.stash[_RUN]


_COUNTER: Final = pytest.StashKey[list[int]]()


def _slug(text: str) -> str:
    """The text as a name of a file or topic. A long text is cut, and ends with a hash of the whole text."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "test"
    if len(slug) <= MAX_NAME:
        return slug
    return f"{slug[:MAX_NAME]}-{zlib.crc32(text.encode()):08x}"


def _is_forked(config: pytest.Config) -> bool:
    """Whether this process is a fork, made by a test, of the test run's process. `sys.exit` in a fork leads to this
    plugin.
    """
    return config.stash[_PID] != os.getpid()


# ---- reports


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Set up the fixtures of a test. The test is skipped if a fixture needs a verb that the cluster does not have."""
    item.stash[_BEGAN_MS] = time.time_ns() // 1_000_000
    with _skipping(item.config):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test. It is skipped if it needs a verb that the cluster does not have. It fails if a function in a rule has
    raised an exception.
    """
    with _skipping(item.config):
        used = item.stash.get(_USED, None)
        try:
            found = yield
        except (KeyboardInterrupt, SystemExit, pytest.skip.Exception):
            raise
        except BaseException as error:  # what pytest.fail raises is no subclass of Exception
            if used is not None:
                used.muster.raise_failure(error)
            raise
        if used is not None:
            used.muster.raise_failure()
        return found


@contextmanager
def _skipping(config: pytest.Config) -> Iterator[None]:
    if not config.getoption("--muster-against"):
        yield
        return
    from muster.testing.against import OnlyMuster

    try:
        yield
    except OnlyMuster as reason:
        pytest.skip(str(reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the server's warnings and the histories of the test's groups to the report of a failed test."""
    report = yield
    if report.failed:
        used = item.stash.get(_USED, None) or _used_by_fixtures(item)
        if used is not None and not _is_forked(item.config):
            report.sections += used.sections
    return report


def _used_by_fixtures(item: pytest.Item) -> Used | None:
    """The server that the test uses through a fixture of its module or class, or as a unittest."""
    server = item.config.stash.get(_SESSION, None)
    if server is None or "muster_session" not in getattr(item, "fixturenames", ()):
        server = getattr(getattr(item, "instance", None), "muster", None)
    if server is None:
        return None
    from muster.testing.reports import Used
    from muster.testing.server import Muster

    return Used(server, item.stash[_BEGAN_MS]) if isinstance(server, Muster) else None
