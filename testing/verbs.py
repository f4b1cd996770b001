"""The interface between `muster.testing` and the server behind its `bridge`. The server is in this process, or is used
by Kafka's protocol. Both kinds of servers have verbs with the same names.

A method with the decorator `verb` or `wait` runs on the server's event loop. It is defined once. Subclasses of
`Blocking`, for tests without an event loop, have it as a function that returns when it is done. Subclasses of
`Awaited`, for asynchronous tests, have it as a coroutine function. Both keep its signature and docstring.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
    runtime_checkable,
)

from muster.coordinator.server.group_views import MemberView
from muster.testcontrol import checks
from muster.testcontrol.errors import WrongValue
from muster.testcontrol.topics import NewRecord
from muster.testing.loop_bridge import LoopBridge
from muster.testing.server_lines import ServerLines

__tracebackhide__ = True
"""With this name, pytest shows the line of the test in place of the lines of this module."""

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_TIMEOUT: Final = 10.0
"""The default limit of a wait, in seconds."""

Content = str | bytes | None
"""A key or a value of a record. A text is written as UTF-8."""
Topics = str | Iterable[str] | None
"""The name of a topic, several names, or None when the caller names no topic."""


class Verbs(Protocol):
    """All verbs of a server. They are called on the server's event loop. Some results must be awaited."""

    @property
    def groups(self) -> Any:
        """The verbs on groups, as in `testcontrol.groups.Groups`."""

    @property
    def topics(self) -> Any:
        """The verbs on topics, as in `testcontrol.topics.Topics`."""

    @property
    def nodes(self) -> Any:
        """The verbs on nodes, as in `testcontrol.nodes.Nodes`."""

    @property
    def faults(self) -> Any:
        """The verbs on rules, as in `testcontrol.faults.engine.Faults`."""

    @property
    def scenarios(self) -> Any:
        """The verbs on scenarios, as in `testcontrol.scenarios.scenario.Scenarios`."""

    @property
    def time(self) -> Any:
        """The verbs on time, as in `testcontrol.virtual_time.VirtualTime`."""

    @property
    def run_until(self) -> Callable[..., Any]:
        """The verb `run_until`, as in `testcontrol.server_control.ServerControl`."""

    @property
    def ahead_ms(self) -> int:
        """How far the server's time is ahead of the machine's time; negative when it is behind."""

    def interventions(self) -> list[str]:
        """The interventions of the test, in words."""

    def take_failure(self, rule_id: str | None = None) -> BaseException | None:
        """The exception that test code in this rule, or (None) in any rule, has raised. Each exception is returned
        once.
        """

    def tidy(self) -> Awaitable[None] | None:
        """Release all that the test holds or has paused."""


class Runner(Protocol):
    """Runs a server in a thread, as a process, or in a play."""

    @property
    def bridge(self) -> LoopBridge:
        """The bridge to the event loop on which the verbs run."""

    @property
    def lines(self) -> ServerLines:
        """The log lines of the server."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the server for clients; empty before the first start."""

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""

    def start(self) -> None:
        """Start the server, with its old addresses and data. Raises OSError, and CannotBeDone when it runs."""

    def stop(self) -> None:
        """Stop the server in order. Has no effect when it does not run."""

    def kill(self) -> None:
        """End the server as `kill -9` does. Raises CannotBeDone when it does not run."""

    def verbs(self) -> Verbs:
        """All verbs of the server. Raises CannotBeDone when it does not run."""

    def take_failure(self) -> BaseException | None:
        """The exception that test code in a rule has raised, also after the server's end. It is returned once."""


@runtime_checkable
class OnThisLoop(Protocol):
    """A runner whose server is on the event loop of the test. So its start and end are awaited."""

    async def change(self, how: str) -> None:
        """Do what `how` says: `start`, `stop` or `kill`. Raises what these raise."""


Behind = Callable[[], Verbs]
"""A function that returns the `Verbs` of the running server. It raises CannotBeDone when no server runs."""


class Verb(Generic[P, R]):
    """A method that runs on the server's event loop: see the module."""

    def __init__(self, body: Callable[Concatenate[Any, P], R], *, waits: bool) -> None:
        """`waits`: the verb has a `timeout`, so it must not run on a thread whose event loop it would block."""
        self.body = body
        self.waits = waits

    if TYPE_CHECKING:

        @overload
        def __get__(self, handle: Blocking, owner: type[Any]) -> Callable[P, R]: ...
        @overload
        def __get__(self, handle: Awaited, owner: type[Any]) -> Callable[P, Coroutine[Any, Any, R]]: ...
        def __get__(self, handle: Any, owner: type[Any]) -> Any:
            """The verb as a function, or as a coroutine function."""


def verb(body: Callable[Concatenate[Any, P], R]) -> Verb[P, R]:
    """Make a verb of a method, which may return its result or an awaitable of its result."""
    return Verb(body, waits=False)


def wait(body: Callable[Concatenate[Any, P], R]) -> Verb[P, R]:
    """Make a verb of a method that may wait as long as its `timeout`."""
    return Verb(body, waits=True)


class Handle:
    """A part of the server that verbs act on, such as a group."""

    def __init__(self, bridge: LoopBridge, behind: Behind) -> None:
        self._bridge = bridge
        self._behind = behind


class Blocking(Handle):
    """The base of classes whose verbs return when they are done."""

    def __init_subclass__(cls) -> None:
        _define_verbs(cls, _blocking)


class Awaited(Handle):
    """The base of classes whose verbs are awaited."""

    def __init_subclass__(cls) -> None:
        _define_verbs(cls, _awaited)


def _define_verbs(cls: type[Handle], make: Callable[[Verb[Any, Any]], Any]) -> None:
    for base in reversed(cls.__mro__):
        for name, found in vars(base).items():
            if isinstance(found, Verb):
                method = make(found)
                method.__qualname__ = f"{cls.__qualname__}.{name}"
                setattr(cls, name, method)


def _blocking(found: Verb[Any, Any]) -> Any:
    body = found.body

    @wraps(body)
    def run(self: Handle, *given: Any, **named: Any) -> Any:
        def call() -> Any:
            return body(self, *given, **named)

        if found.waits:
            return self._bridge.wait(call, named.get("timeout", DEFAULT_TIMEOUT))
        return self._bridge.call(call)

    return run


def _awaited(found: Verb[Any, Any]) -> Any:
    body = found.body

    @wraps(body)
    async def run(self: Handle, *given: Any, **named: Any) -> Any:
        return await self._bridge.awaited(lambda: body(self, *given, **named))

    return run


def records(
    values: Sequence[Content],
    key: Content,
    partition: int | None,
    headers: Mapping[str, Content] | None,
    timestamp_ms: int | None,
) -> list[NewRecord]:
    """Make a record for each value; all other fields are the same. Raises WrongValue."""
    if headers is not None and not isinstance(headers, Mapping):
        raise WrongValue(checks.sentence("headers", headers, "a mapping of names to values"))
    named = tuple(
        (checks.text("the name of a header", name), checks.content(f"header {name}", value))
        for name, value in (headers or {}).items()
    )
    at = checks.content("key", key), partition, named, timestamp_ms
    return [NewRecord(checks.content("a value", value), *at) for value in values]


def name_of(member: str | MemberView) -> str:
    """The name by which a verb finds the member. Raises WrongValue."""
    if isinstance(member, MemberView):
        return member.member_id
    return checks.text("member", member)
