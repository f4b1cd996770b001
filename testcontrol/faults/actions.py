"""What can happen to a request that fits a rule.

An action has up to three moments: before the handler, after it, and when the answer is sent. The action gets a callback
to continue, and calls it now, later or never.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Protocol

from muster.coordinator.api.exchange import Exchange
from muster.coordinator.api.layers import CloseConnection
from muster.protocol.errors import error_message
from muster.protocol.message import Message, copied
from muster.protocol.messages.error_codes import ERRORS
from muster.testcontrol.checks import sentence
from muster.testcontrol.errors import WrongFault
from muster.testcontrol.faults.error_answers import error_answer
from muster.testcontrol.faults.matching import Request

_CODES: Final = {row[0]: code for code, row in ERRORS.items()}

MAX_MS: Final = 2**31 - 1
"""The limit of throttle_time_ms; other times and sizes have the same limit."""
_TYPES: Final[Mapping[str, tuple[Any, str]]] = {
    "str": (str, "a text"),
    "str | None": (str | None, "a text"),
    "int": (int, "a number"),
    "bool": (bool, "true or false"),
    "Callable[[Request], object]": (None, "a function of the request"),
}
"""The allowed types of an action's fields: its annotations, and their names in a sentence."""

Proceed = Callable[[], None]
Respond = Callable[[Message | None], None]


class Flow(Protocol):
    """One request that rules hit, as actions see it."""

    request: Request
    exchange: Exchange

    def answer(self, response: Message) -> None:
        """Answer in place of the handler; actions after this action still see the answer."""

    def failed(self, failure: BaseException) -> None:
        """Keep an exception of test code for the test."""

    def later(self, ms: int, callback: Proceed) -> None:
        """Call back after `ms` of the machine's time, unless the connection has ended."""

    def hold(self, callback: Proceed) -> None:
        """Call back when the rule is released or removed, unless the connection has ended."""


class Action:
    """What happens to a request. `name`: the action's name in `do`, in JSON."""

    name: ClassVar[str]
    allowed: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The allowed values of fields."""
    least: ClassVar[Mapping[str, int]] = {}
    """The least values of fields that are numbers; the greatest is `MAX_MS`."""

    def __post_init__(self) -> None:
        """Raises WrongFault for a wrong field."""
        for field in fields(self):  # type: ignore[arg-type]  # every action is a dataclass
            kind, expected = _TYPES.get(str(field.type), (object, ""))
            value = getattr(self, field.name)
            fits = callable(value) if kind is None else isinstance(value, kind)
            if not fits or (isinstance(value, bool) and kind not in (bool, object)):
                raise WrongFault(sentence(f"then: {field.name}", value, expected))
        for name, values in self.allowed.items():
            if getattr(self, name) not in values:
                raise WrongFault(sentence(f"then: {name}", getattr(self, name), " or ".join(values)))
        for name, least in self.least.items():
            if not least <= getattr(self, name) <= MAX_MS:
                raise WrongFault(sentence(f"then: {name}", getattr(self, name), f"a number from {least} to {MAX_MS}"))

    def before(self, flow: Flow, proceed: Proceed) -> None:
        """The moment before the handler."""
        proceed()

    def after(self, flow: Flow, response: Message | None, proceed: Respond) -> None:
        """The moment after the handler. `response` None: the client expects no answer."""
        proceed(response)

    def deliver(self, flow: Flow, response: Message | None) -> bool:
        """Send the answer and return True. False: this action leaves the sending to other actions."""
        return False

    def words(self) -> str:
        """The action in words, for the log."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """The action as JSON."""
        shown = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # each action is a dataclass
        return {"do": self.name, **{name: value for name, value in shown.items() if value is not None}}


@dataclass(frozen=True)
class Error(Action):
    """The request is answered with this error, and its handler does not run."""

    error: str
    message: str | None = None
    name: ClassVar[str] = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.error not in _CODES:
            raise WrongFault(f"then: {self.error} is no error code of Kafka, such as NOT_COORDINATOR")

    def before(self, flow: Flow, proceed: Proceed) -> None:
        code = _CODES[self.error]
        words = error_message(code) if self.message is None else self.message
        request = flow.request
        flow.answer(error_answer(request.api_key, request.version, request.message, code, words))

    def words(self) -> str:
        return f"answered {self.error}"


@dataclass(frozen=True)
class Note(Action):
    """Nothing happens to the request, but the log of hits has it."""

    name: ClassVar[str] = "note"

    def words(self) -> str:
        return "noted, and nothing done to it"


class _Kept(Action):
    """The request or its answer is kept. `where`: before or after the handler."""

    where: str
    allowed: ClassVar[Mapping[str, tuple[str, ...]]] = {"where": ("before", "after")}

    def keep(self, flow: Flow, callback: Proceed) -> None:
        """Call back later."""
        raise NotImplementedError

    def before(self, flow: Flow, proceed: Proceed) -> None:
        if self.where == "before":
            self.keep(flow, proceed)
        else:
            proceed()

    def after(self, flow: Flow, response: Message | None, proceed: Respond) -> None:
        if self.where == "after":
            self.keep(flow, lambda: proceed(response))
        else:
            proceed(response)

    @property
    def what(self) -> str:
        """What is kept, in words."""
        return "the request" if self.where == "before" else "the answer"


@dataclass(frozen=True)
class Delay(_Kept):
    """The request or its answer is delayed. `where`: before or after the handler."""

    ms: int
    where: str = "before"
    name: ClassVar[str] = "delay"
    least: ClassVar[Mapping[str, int]] = {"ms": 0}

    def keep(self, flow: Flow, callback: Proceed) -> None:
        flow.later(self.ms, callback)

    def words(self) -> str:
        return f"{self.what} was kept for {self.ms} ms"


@dataclass(frozen=True)
class Hold(_Kept):
    """The request, before the handler, or its answer is held until the rule is released or removed."""

    where: str = "after"
    name: ClassVar[str] = "hold"

    def keep(self, flow: Flow, callback: Proceed) -> None:
        flow.hold(callback)

    def words(self) -> str:
        return f"{self.what} was held until the rule is released"


@dataclass(frozen=True)
class LoseAnswer(Action):
    """The handler runs, and its answer is lost. `cut`: then the connection ends; otherwise the client waits."""

    cut: bool = True
    name: ClassVar[str] = "lose-answer"

    def deliver(self, flow: Flow, response: Message | None) -> bool:
        if self.cut:
            flow.exchange.cut(CloseConnection("a rule of faults lost its answer", **flow.exchange.route.facts()))
        return True

    def words(self) -> str:
        return "the answer was lost" + (", and the connection cut" if self.cut else "")


@dataclass(frozen=True)
class Cut(Action):
    """The connection ends: before the handler, in the middle of the answer, or after the answer."""

    where: str = "before"
    name: ClassVar[str] = "cut"
    allowed: ClassVar[Mapping[str, tuple[str, ...]]] = {"where": ("before", "middle", "after")}

    def _reason(self, flow: Flow) -> CloseConnection:
        return CloseConnection("a rule of faults cut it", **flow.exchange.route.facts())

    def before(self, flow: Flow, proceed: Proceed) -> None:
        if self.where == "before":
            flow.exchange.cut(self._reason(flow))
        else:
            proceed()

    def deliver(self, flow: Flow, response: Message | None) -> bool:
        if self.where == "before":
            return False
        frame = _frame(flow, response)
        if frame is not None:
            flow.exchange.part(frame if self.where == "after" else frame[: len(frame) // 2])
        flow.exchange.cut(self._reason(flow))
        return True

    def words(self) -> str:
        where = {"before": "before the handler", "middle": "in the middle of the answer", "after": "after the answer"}
        return f"the connection was cut {where[self.where]}"


@dataclass(frozen=True)
class Trickle(Action):
    """The answer is sent some bytes at a time."""

    size: int = 1
    every_ms: int = 10
    name: ClassVar[str] = "trickle"
    least: ClassVar[Mapping[str, int]] = {"size": 1, "every_ms": 1}

    def deliver(self, flow: Flow, response: Message | None) -> bool:
        frame = _frame(flow, response)
        if frame is None:
            return False
        self._send(flow, frame, 0)
        return True

    def _send(self, flow: Flow, frame: bytes, at: int) -> None:
        end = at + self.size
        if end >= len(frame):
            flow.exchange.send(frame[at:])
            return
        flow.exchange.part(frame[at:end])
        flow.later(self.every_ms, lambda: self._send(flow, frame, end))

    def words(self) -> str:
        return f"the answer came {self.size} bytes at a time, every {self.every_ms} ms"


@dataclass(frozen=True)
class Throttle(Action):
    """The answer has this throttle_time_ms, and is sent at once: clients wait by themselves."""

    ms: int
    name: ClassVar[str] = "throttle"
    least: ClassVar[Mapping[str, int]] = {"ms": 0}

    def after(self, flow: Flow, response: Message | None, proceed: Respond) -> None:
        changed: Any = response
        if hasattr(changed, "throttle_time_ms"):
            # the handler may answer others with the same object
            changed = copied(changed)
            changed.throttle_time_ms = self.ms
        proceed(changed)

    def words(self) -> str:
        return f"asked to wait for {self.ms} ms (throttle_time_ms)"


@dataclass(frozen=True)
class Call(Action):
    """A function of a test sees the request, and runs before the handler. JSON cannot express this action."""

    function: Callable[[Request], object]
    name: ClassVar[str] = "call"

    def __post_init__(self) -> None:
        super().__post_init__()
        if inspect.iscoroutinefunction(self.function):
            raise WrongFault(sentence("then: function", self.function, "a function that is not asynchronous"))

    def before(self, flow: Flow, proceed: Proceed) -> None:
        """See `Action`. An exception of the function is kept for the test, and the request continues."""
        try:
            self.function(flow.request)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as failure:  # noqa: BLE001  # pytest.fail raises no Exception
            flow.failed(failure)
        proceed()

    def words(self) -> str:
        return f"{getattr(self.function, '__name__', 'a function')} was called"

    def to_json(self) -> dict[str, Any]:
        return {"do": self.name}


def _frame(flow: Flow, response: Message | None) -> bytes | None:
    frame = None if response is None else flow.exchange.frame(response)
    return frame if frame is None or isinstance(frame, bytes) else b"".join(frame)
