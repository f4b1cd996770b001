"""Sends the probes to a target, and says what came of each."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from muster.conform.player import spans
from muster.conform.probes import codes, forms
from muster.conform.probes.asking import AGAIN_S, NOT_READY, Answered, Asker, Gone, Unprepared, codes_of
from muster.conform.probes.catalogue import Probe
from muster.conform.probes.frames import FrameProbe
from muster.conform.probes.link import Closed, Link, Silent
from muster.conform.probes.place import Ask, Body, Place
from muster.conform.results import Outcome, Severity, State

LEVEL = "wire"
AT_ONCE = 8
"""How many connections send probes at the same time."""
LOGINS = frozenset({"SaslHandshake", "SaslAuthenticate"})
"""APIs that begin a new login on a connection with SASL, so no other probe may follow there."""
READY_TRIES = 20
"""How often a probe is sent to a target that is not ready."""

AnyProbe = Probe | FrameProbe


class Runner:
    """Runs probes against one target."""

    def __init__(self, asker: Asker, place: Place, *, compares: bool = True) -> None:
        """`place`: what `scene` has prepared. `compares`: whether error codes are compared with Kafka's."""
        self.asker, self.place, self.compares = asker, place, compares
        self.gone = ""
        """Why no more probes are sent; empty while the target is there."""
        self.codes: dict[str, codes.Codes] = {}
        """The error codes of each answer, by the probe's id."""

    async def run(self, probes: Sequence[AnyProbe], done: Callable[[Outcome], object] | None = None) -> list[Outcome]:
        """The outcomes of the probes, in their order. `done` is called with each as it ends."""
        outcomes: dict[int, Outcome] = {}
        waiting = list(enumerate(probes))[::-1]

        async def work() -> None:
            link: Link | None = None
            while waiting:
                number, probe = waiting.pop()
                outcome, link = await self._twice(probe, link)
                outcomes[number] = outcome
                if done is not None:
                    done(outcome)
            await _dropped(link)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        return [outcomes[number] for number in sorted(outcomes)]

    async def _twice(self, probe: AnyProbe, link: Link | None) -> tuple[Outcome, Link | None]:
        """Send a probe, and again if it fails: what does not fail twice was a matter of time."""
        outcome, link = await self._once(probe, link)
        if outcome.state is not State.FAILED:
            return outcome, link
        await _dropped(link)
        again, link = await self._once(probe, None)
        if self.gone:
            # it may be this probe that ended the target
            return dataclasses.replace(outcome, diff=f"{outcome.diff}; then {self.gone}"), link
        if again.state is State.PASSED:
            why = f"it differed at first, and passed when it was sent again: {outcome.diff}"
            again = dataclasses.replace(again, state=State.FLAKY, why=why)
        return dataclasses.replace(again, tries=2), link

    async def _once(self, probe: AnyProbe, link: Link | None) -> tuple[Outcome, Link | None]:
        """Send a probe: its outcome, and the connection if it can be used again."""
        why = self._not_sent(probe) or self.gone
        outcome = Outcome("probe", probe.id, LEVEL, probe.title, State.SKIPPED, why=why)
        if why:
            return outcome, link
        began = time.monotonic()
        if isinstance(probe, FrameProbe):
            outcome = await self._play_frames(probe, outcome)
        else:
            outcome, link = await self._play(probe, outcome, link)
        return dataclasses.replace(outcome, seconds=time.monotonic() - began), link

    def _not_sent(self, probe: AnyProbe) -> str:
        """Why a probe is not sent to this target; empty if it is."""
        if not isinstance(probe, FrameProbe):
            return probe.skip
        return "" if self.asker.version(probe.needs) is not None else f"the target has no {probe.needs}"

    async def _play_frames(self, probe: FrameProbe, outcome: Outcome) -> Outcome:
        """Play a probe of frames, on a connection of its own."""
        own: Link | None = None
        try:
            own = await self.asker.open()
            found = await probe.play(own, self.place)
        except Gone as error:
            self.gone = str(error)
            return dataclasses.replace(outcome, why=self.gone)
        except (Closed, Silent, ValueError, OSError) as error:
            return _failed(outcome, f"{probe.title}: {error}", "")
        finally:
            await _dropped(own)
        if found is None:
            return dataclasses.replace(outcome, state=State.PASSED)
        return _judged(outcome, probe.needs, Answered(found.request, found.answer, None, found.verdict))

    async def _play(self, probe: Probe, outcome: Outcome, link: Link | None) -> tuple[Outcome, Link | None]:
        request = f"{probe.api} v{probe.version}"
        try:
            link = link or await self.asker.open()
            answered = await self._ready(link, probe)
            if probe.api in LOGINS:
                link = await _dropped(link)
            return _judged(outcome, request, self._compared(probe, answered)), link
        except (Unprepared, Gone) as error:
            self.gone = str(error) if isinstance(error, Gone) else ""
            outcome = dataclasses.replace(outcome, why=str(error))
        except (Closed, Silent, ValueError, OSError) as error:
            outcome = _failed(outcome, f"{request} is advertised and was not answered: {error}", request)
        return outcome, await _dropped(link)

    def _compared(self, probe: Probe, answered: Answered) -> Answered:
        """The answer, with what is wrong with its error codes."""
        if answered.body is None:
            return answered
        reading = spans.read(probe.api, probe.version, answered.frame)
        self.codes[probe.id] = codes.of(reading)
        if answered.verdict is not None or not self.compares:
            return answered
        return dataclasses.replace(answered, verdict=codes.judged(probe, reading))

    async def _ready(self, link: Link, probe: Probe) -> Answered:
        """Send a probe, and again while the target is not ready; the probe's answer."""
        answered = await self._script(link, probe)
        for _ in range(READY_TRIES):
            if NOT_READY.isdisjoint(codes_of(answered.body)):
                break
            await asyncio.sleep(AGAIN_S)
            answered = await self._script(link, probe)
        return answered

    async def _script(self, link: Link, probe: Probe) -> Answered:
        """Send a probe with the requests around it; the probe's answer."""
        extra = forms.EXTRA if probe.form == forms.TAGS else None
        made = self._body(probe)
        if not isinstance(made, Generator):
            return await self.asker.exchange(link, probe.api, probe.version, self._formed(probe, made), extra)
        answered: Answered | None = None
        answer: Body | None = None
        try:
            while True:
                step: Ask = next(made) if answer is None else made.send(answer)
                if step.api is not None:
                    answer = await self._around(link, step.api, step.body, answered)
                    continue
                body = self._formed(probe, step.body)
                answered = await self.asker.exchange(link, probe.api, probe.version, body, extra)
                if answered.body is None:
                    return answered
                answer = answered.body
        except StopIteration:
            pass
        assert answered is not None
        return answered

    async def _around(self, link: Link, api: str, body: Body, answered: Answered | None) -> Body:
        """A request before the probe, or one behind it, which only cleans up."""
        try:
            return await self.asker.ask(link, api, body)
        except Unprepared:
            if answered is None:
                raise
            return {}

    def _body(self, probe: Probe) -> Any:
        if probe.form == forms.SMALLEST or probe.api not in forms.RICH_BODIES:
            return forms.smallest(probe.api, probe.version)
        return forms.RICH_BODIES[probe.api](dataclasses.replace(self.place, form=probe.form), probe.version)

    def _formed(self, probe: Probe, body: Body) -> Body:
        if probe.form == forms.NULLS:
            return forms.nulls(probe.api, probe.version, body) or body
        return body


async def _dropped(link: Link | None) -> Link | None:
    """Close a connection that cannot be used again."""
    if link is not None:
        await link.close()
    return None


def _failed(outcome: Outcome, text: str, request: str) -> Outcome:
    bad = Severity.CLIENTS_BREAK
    return dataclasses.replace(outcome, state=State.FAILED, diff=text, request=request, severity=bad)


def _judged(outcome: Outcome, request: str, answered: Answered) -> Outcome:
    verdict = answered.verdict
    if verdict is None:
        return dataclasses.replace(outcome, state=State.PASSED, request=request)
    return dataclasses.replace(
        outcome,
        state=State.FAILED,
        request=request,
        request_bytes=answered.request,
        answer=answered.frame,
        wrong=verdict.wrong,
        diff=verdict.text,
        severity=verdict.severity,
        kip=verdict.rule,
    )
