"""The rules in force on a running server, and the log of their hits. Without rules, no request is intercepted.

If several rules hit the same request, all rules act, in the order in which they were added. First the rules act before
the handler, then after it. The first rule with an action for the sending of the answer sends it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

import structlog

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import Exchange, Intercept, Run
from muster.coordinator.server import Server
from muster.coordinator.system.clock import Clock
from muster.protocol.message import Message
from muster.testcontrol.checks import whole
from muster.testcontrol.errors import NoSuchFault
from muster.testcontrol.faults.actions import Action
from muster.testcontrol.faults.matching import Match, Request
from muster.testcontrol.faults.rule import Rule, When
from muster.testcontrol.interceptors import Interceptors

log = structlog.get_logger("muster.testcontrol")

MAX_HITS: Final = 1_000
"""The most hits that are kept."""


class HitLog:
    """The newest hits, and the number of all hits."""

    def __init__(self) -> None:
        self._hits: deque[dict[str, Any]] = deque(maxlen=MAX_HITS)
        self.count = 0

    def add(self, rule: Rule, request: Request, wall_ms: int) -> None:
        """Add a hit of the rule on this request."""
        self.count += 1
        groups, members = request.groups, request.members
        self._hits.append(
            {
                "number": self.count,
                "rule": rule.id,
                "name": rule.name,
                "wall_ms": wall_ms,
                "node": request.node_id,
                "api": request.api,
                "version": request.version,
                "client_id": request.client_id,
                "principal": request.principal,
                "peer": request.peer,
                "group": groups[0] if groups else None,
                "member": members[0] if members else None,
                "did": rule.then.words(),
            }
        )

    def after(self, number: int = 0) -> list[dict[str, Any]]:
        """The hits with a greater number, oldest first. Raises WrongValue."""
        whole("after", number)
        return [hit for hit in self._hits if hit["number"] > number]

    def forget(self) -> None:
        """Remove all hits; the numbers continue."""
        self._hits.clear()

    @property
    def forgotten(self) -> int:
        """How many hits are no longer kept."""
        return self.count - len(self._hits)


ALWAYS: Final = When()
EVERYTHING: Final = Match()
MAX_FAILURES: Final = 100
"""The most exceptions of test code that are kept."""
MAX_NOTES: Final = 10
"""How many failures of test code one error names."""


class Faults:
    """See the module. `log`: the hits."""

    def __init__(self, server: Server, interceptors: Interceptors) -> None:
        """`server`: it must have started before the first rule is added; `interceptors`: those of its nodes."""
        self.log = HitLog()
        self._failures: list[tuple[str, BaseException]] = []
        """Exceptions of functions and predicates of a test, with the ids of their rules."""
        self._server = server
        self._interceptors = interceptors
        self._rules: dict[str, Rule] = {}
        self._ids = count(1)
        self._is_open = False

    # ---- the rules

    @property
    def rules(self) -> list[Rule]:
        """The rules in force and the spent rules, in the order in which they were added."""
        return list(self._rules.values())

    def add(self, match: Match, then: Action, when: When = ALWAYS, *, name: str = "") -> Rule:
        """Put a rule in force."""
        return self.put(Rule(match, then, when, name))

    def put(self, rule: Rule) -> Rule:
        """Put a rule in force; the rule gets its id."""
        rule.id = f"f{next(self._ids)}"
        self._rules[rule.id] = rule
        self._update_interceptors()
        return rule

    def find(self, rule_id: str) -> Rule:
        """The rule with this id. Raises NoSuchFault."""
        found = self._rules.get(rule_id)
        if found is None:
            raise NoSuchFault(f"there is no rule {rule_id}")
        return found

    def release(self, rule_id: str) -> Rule:
        """Release what the rule holds; a rule with `until_released` ends. Raises NoSuchFault."""
        rule = self.find(rule_id)
        rule.release()
        self._update_interceptors()
        return rule

    def remove(self, rule_id: str) -> None:
        """Remove the rule, and release what it holds. Raises NoSuchFault."""
        rule = self.find(rule_id)
        del self._rules[rule_id]
        rule.release()
        self._update_interceptors()

    def clear(self) -> None:
        """Remove all rules."""
        for rule_id in list(self._rules):
            self.remove(rule_id)

    # ---- exceptions of test code

    def take_failure(self, rule_id: str | None = None) -> BaseException | None:
        """The first exception of a function or a predicate, of this rule or of any rule. The exception is returned
        once, and the later exceptions are its notes.
        """
        found = [(of, failure) for of, failure in self._failures if rule_id in (None, of)]
        self._failures = [one for one in self._failures if one not in found]
        if not found:
            return None
        first = found[0][1]
        for _, failure in found[1:MAX_NOTES]:
            first.add_note(f"and then: {failure!r}")
        return first

    def _failed(self, rule: Rule, api: str, failure: BaseException) -> None:
        log.error("a function of a rule failed", rule=rule.id, name=rule.name, api=api, exc_info=failure)
        if len(self._failures) < MAX_FAILURES:
            self._failures.append((rule.id, failure))

    # ---- the interceptors

    def _update_interceptors(self) -> None:
        wanted = any(not rule.is_spent for rule in self._rules.values())
        if wanted != self._is_open:
            self._is_open = wanted
            self._interceptors.set_first(self._intercept if wanted else None)

    def _intercept(self, node_id: int) -> Intercept:
        def wants(context: RequestContext) -> bool:
            return any(rule.match.may_fit(context, node_id) for rule in self._rules.values() if not rule.is_spent)

        return Intercept(partial(self._handle, node_id), wants)

    def _handle(self, node_id: int, context: RequestContext, message: Message, exchange: Exchange, run: Run) -> None:
        request = Request(context, message, self._server.cluster.nodes[node_id].node)
        hitting = [rule for rule in self.rules if self._hits(rule, request)]
        if not hitting:
            run(exchange)
            return
        clock = self._server.clock
        wall_ms = clock.now().wall_ms
        for rule in hitting:
            rule.hits += 1
            self.log.add(rule, request, wall_ms)
        _Flow(clock.machine, request, exchange, run, hitting, self._failed).begin()
        self._update_interceptors()

    def _hits(self, rule: Rule, request: Request) -> bool:
        if rule.is_spent or not rule.match.may_fit(request.context, request.node_id):
            return False
        try:
            fits = rule.match.fits(request)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as failure:  # noqa: BLE001  # pytest.fail raises no Exception; the request continues
            self._failed(rule, request.api, failure)
            return False
        return fits and rule.turns.hits_next()


class _Flow:
    """A request that passes the rules that hit it; see `actions.Flow`."""

    def __init__(
        self,
        clock: Clock,
        request: Request,
        exchange: Exchange,
        run: Run,
        rules: list[Rule],
        failed: Callable[[Rule, str, BaseException], None],
    ) -> None:
        self.request = request
        self.exchange = exchange
        self._clock = clock
        self._run = run
        self._rules = rules
        self._failed = failed
        self._at = 0
        """The index of the rule that acts now."""

    def begin(self, at: int = 0) -> None:
        """Let the rules from index `at` on act, then the handler."""
        if at == len(self._rules):
            self._run(self.answer)
            return
        self._at = at
        self._rules[at].then.before(self, lambda: self.begin(at + 1))

    def answer(self, response: Message | None) -> None:
        self._after(response, 0)

    def _after(self, response: Message | None, at: int) -> None:
        if at == len(self._rules):
            if not any(rule.then.deliver(self, response) for rule in self._rules):
                self.exchange(response)
            return
        self._at = at
        self._rules[at].then.after(self, response, lambda changed: self._after(changed, at + 1))

    def failed(self, failure: BaseException) -> None:
        self._failed(self._rules[self._at], self.request.api, failure)

    def later(self, ms: int, callback: Callable[[], None]) -> None:
        timer = self._clock.call_at(self._clock.mono_ms() + ms, lambda: self._go_on(callback, stop))
        stop = self.request.context.channel.on_close(timer.cancel)

    def hold(self, callback: Callable[[], None]) -> None:
        forget = self._rules[self._at].hold(lambda: self._go_on(callback, stop))
        stop = self.request.context.channel.on_close(forget)

    def _go_on(self, callback: Callable[[], None], stop: Callable[[], None]) -> None:
        stop()
        # Dispatch logs what fails in a handler. A failure here costs the connection, not the server.
        try:
            callback()
        except Exception as error:  # noqa: BLE001  # `channel.fault` logs the error
            self.request.context.channel.fault(error)
