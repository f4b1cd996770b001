"""The interface between `muster.testing` and the server behind its `bridge`. That is a server in this process, or one
that is reached by Kafka's protocol. Both have verbs of the same names.

A method with the decorator `verb` or `wait` runs on the server's event loop. It is defined once. Classes of `Blocking`
have it as a function that returns when it is done, for tests without an event loop. Classes of `Awaited` have it as a
coroutine function, for asynchronous tests. Both have its signature and its docstring.
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

from muster.testcontrol import checks
from muster.testcontrol.errors import WrongValue
from muster.testcontrol.topics import NewRecord
from muster.testcontrol.views import MemberView
from muster.testing.loop_bridge import LoopBridge
from muster.testing.server_lines import ServerLines

__tracebackhide__ = True
"""pytest shows the line of the test instead."""

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_TIMEOUT: Final = 10.0
"""The default limit of a wait, in seconds."""

Content = str | bytes | None
"""A key or a value of a record; a text is written as UTF-8."""
Topics = str | Iterable[str] | None
"""One topic by name, several, or None for no topic in particular."""


class Verbs(Protocol):
    """See the module. Called on the server's event loop; some results have to be awaited."""

    @property
    def groups(self) -> Any:
        """As `testcontrol.groups.Groups`."""

    @property
    def topics(self) -> Any:
        """As `testcontrol.topics.Topics`."""

    @property
    def nodes(self) -> Any:
        """As `testcontrol.nodes.Nodes`."""

    @property
    def faults(self) -> Any:
        """As `testcontrol.faults.engine.Faults`."""

    @property
    def scenarios(self) -> Any:
        """As `testcontrol.scenarios.scenario.Scenarios`."""

    @property
    def time(self) -> Any:
        """As `testcontrol.virtual_time.VirtualTime`."""

    @property
    def run_until(self) -> Callable[..., Any]:
        """As `testcontrol.server_control.ServerControl`."""

    @property
    def ahead_ms(self) -> int:
        """How far its time is ahead of the machine's; negative: behind."""

    def interventions(self) -> list[str]:
        """The interventions of the test, in words."""

    def take_failure(self, rule_id: str | None = None) -> BaseException | None:
        """The exception of test code in this rule, or in any; each one is returned once."""

    def tidy(self) -> Awaitable[None] | None:
        """Release all that is held or paused."""


class Runner(Protocol):
    """What runs a server: a thread, a process or a play."""

    @property
    def bridge(self) -> LoopBridge:
        """The bridge to the event loop on which the verbs run."""

    @property
    def lines(self) -> ServerLines:
        """The server's log."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients; empty before the first start."""

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""

    def start(self) -> None:
        """Start it, with its old addresses and data. Raises CannotBeDone when it runs, and OSError."""

    def stop(self) -> None:
        """Stop it in order; has no effect when it does not run."""

    def kill(self) -> None:
        """End it as `kill -9` does. Raises CannotBeDone when it does not run."""

    def verbs(self) -> Verbs:
        """All its verbs. Raises CannotBeDone when it does not run."""

    def take_failure(self) -> BaseException | None:
        """The exception of test code in a rule, whether the server runs or not; returned once."""


@runtime_checkable
class OnThisLoop(Protocol):
    """A runner whose server is on the event loop of the test, so that its start and end are awaited."""

    async def change(self, how: str) -> None:
        """`start`, `stop` or `kill` it. Raises as these do."""


Behind = Callable[[], Verbs]
"""The verbs of the running server. Raises CannotBeDone when it does not run."""


class Verb(Generic[P, R]):
    """A method that runs on the server's event loop: see the module."""

    def __init__(self, body: Callable[Concatenate[Any, P], R], *, waits: bool) -> None:
        """`waits`: the verb has a `timeout`, so that it must not run where it would hold up an event loop."""
        self.body = body
        self.waits = waits

    if TYPE_CHECKING:

        @overload
        def __get__(self, handle: Blocking, owner: type[Any]) -> Callable[P, R]: ...
        @overload
        def __get__(self, handle: Awaited, owner: type[Any]) -> Callable[P, Coroutine[Any, Any, R]]: ...
        def __get__(self, handle: Any, owner: type[Any]) -> Any:
            """A function, or a coroutine function."""


def verb(body: Callable[Concatenate[Any, P], R]) -> Verb[P, R]:
    """A verb; its body may return an awaitable of its result."""
    return Verb(body, waits=False)


def wait(body: Callable[Concatenate[Any, P], R]) -> Verb[P, R]:
    """A verb that waits for as long as its `timeout`."""
    return Verb(body, waits=True)


class Handle:
    """A thing of the server that verbs act on."""

    def __init__(self, bridge: LoopBridge, behind: Behind) -> None:
        self._bridge = bridge
        self._behind = behind


class Blocking(Handle):
    """A class whose verbs return when they are done."""

    def __init_subclass__(cls) -> None:
        _define_verbs(cls, _blocking)


class Awaited(Handle):
    """A class whose verbs are awaited."""

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
    """Records of these values, with the same other fields. Raises WrongValue."""
    if headers is not None and not isinstance(headers, Mapping):
        raise WrongValue(checks.sentence("headers", headers, "a mapping of names to values"))
    named = tuple(
        (checks.text("the name of a header", name), checks.content(f"header {name}", value))
        for name, value in (headers or {}).items()
    )
    at = checks.content("key", key), partition, named, timestamp_ms
    return [NewRecord(checks.content("a value", value), *at) for value in values]


def name_of(member: str | MemberView) -> str:
    """The name of a member for a verb. Raises WrongValue."""
    if isinstance(member, MemberView):
        return member.member_id
    return checks.text("member", member)
