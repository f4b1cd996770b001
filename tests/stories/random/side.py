"""One side of a history: a server, the mirror whose answers the server must give, and what its actors remember."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence

from muster.conform.player import playing
from muster.conform.player.showing import say
from muster.conform.player.stage import Stage
from muster.conform.player.story import Action, Drop, Reply, Send, Step, Story
from muster.coordinator.groups.classic.group import classic_group
from tests.stories.random.comparing import Names, differences, dumped, plain
from tests.stories.random.following import Following
from tests.stories.random.mirror import Mirror, tells_leader
from tests.stories.random.ways import LEADER, OwnWays
from tests.stories.random.worlds import Clock, Described, World

QUIET_MS = 60
"""If nothing is due, no reply may come for this time."""
SLOW_MS = 100
"""If a wait of `QUIET_MS` takes longer, the machine is busy."""
PATIENCE_S = 5.0
"""A due reply may be late by this time."""
AGREE_S = 2.0
"""A due event without a reply may be late by this time on a server."""
AGAIN_MS = 20
GROUPS = ("g", "h")
UNTELLABLE = (KeyError, ValueError, AttributeError, IndexError)
"""The errors of a step that cannot be written now: it names an id that nobody has, or a version without the field."""


class Difference(Exception):
    """A server did not answer as its mirror did."""


class OpenQuestion(Exception):
    """A difference after a choice that Kafka leaves open and that no reply has shown: the comparison ends."""


class Side:
    """One server and its mirror, in one history. `suffix`: that of the group ids on the server."""

    def __init__(
        self,
        world: World,
        ways: OwnWays,
        story: Story,
        clock: Clock,
        suffix: str = "",
        topic_ids: Mapping[str, uuid.UUID] | None = None,
        following: Following | None = None,
    ) -> None:
        """`following`: the mirror uses the server's ids of topics and members, as far as possible."""
        self.world, self.ways, self.clock, self._following = world, ways, clock, following
        self.mirror = Mirror(
            story, ways, None if following is None else following.topics(story, suffix, topic_ids or {})
        )
        mirror_ids = {name: uuid.UUID(bytes=one.topic_id) for name, one in self.mirror.topics.by_name.items()}
        twin_suffix = ""
        if following is not None:
            mirror_ids, twin_suffix = dict(topic_ids or {}), suffix
        self.stage = Stage(story, suffix, dict(topic_ids or mirror_ids))
        self.twin = Stage(story, twin_suffix, mirror_ids)
        if following is not None:
            self.stage.draw, self.twin.draw = following.draws(suffix), following.draws(suffix)
        self._names = Names(suffix, self.stage.topic_ids)
        self._twin_names = Names(twin_suffix, mirror_ids)
        self._plays: tuple[playing.Part, playing.Part] | None = None
        self._actions: tuple[Action, Action] | None = None
        self._held: tuple[list[Reply], list[Reply]] = ([], [])
        self.reported: dict[int, str] = {}
        """The answers: index of the request -> plain body."""
        self.late_ms = 0
        """How much later an answer came than in the mirror."""

    # ---- steps

    def begin(self, line: str) -> str | None:
        """Begin a step. The line, with the ids that the step has; None: the step cannot be written yet."""
        reported = with_ids(line, self.stage)
        self._plays = tuple(
            playing.step(stage, Step(with_ids(line, stage), [], 0), None) for stage in (self.stage, self.twin)
        )
        return None if self._go_on(None) is None else reported

    @property
    def busy(self) -> bool:
        """Whether the step has not ended."""
        return self._actions is not None

    async def perform(self) -> list[str]:
        """Perform the next action of the step; outcome lines, when it was the last one."""
        assert self._actions is not None
        action, twin_action = self._actions
        if isinstance(action, Drop):
            await self.world.drop(action.actor)
            self.mirror.drop(action.actor)
            return self._go_on(([], [])) or []
        assert isinstance(action, Send)
        assert isinstance(twin_action, Send)
        try:
            if self._following is not None:
                await self._following.before(self, action, twin_action)
            else:
                self.ask_mirror(twin_action)
                await self.world.transmit(action)
        except ValueError:  # the codec refuses the fields in this version
            self._plays = self._actions = None
            return []
        real, expected = await self.catch_up(len(self.stage.sent) - 1)
        if self._following is not None:
            await self._following.after(self, action)
        held, self._held = self._held, ([], [])
        return self._go_on((held[0] + real, held[1] + expected)) or []

    def ask_mirror(self, action: Send, at_ms: int | None = None) -> None:
        """Ask the mirror now, or as of `at_ms`: not later than the server, which may be waited for."""
        self.mirror.live_until(self.clock.now_ms() if at_ms is None else at_ms)
        self.mirror.ask(action)
        self.mirror.live_until(self.clock.now_ms())  # what is due at once

    def _go_on(self, replies: tuple[list[Reply], list[Reply]] | None) -> list[str] | None:
        """Go on with the step. Its outcome lines, if it has ended; None: the step cannot be written now."""
        assert self._plays is not None
        actions, ends = [], []
        for play, answer in zip(self._plays, replies or (None, None), strict=True):
            try:
                actions.append(play.send(answer))
            except StopIteration as end:
                ends.append(end.value)
            except UNTELLABLE:
                self._plays = self._actions = None
                return None
        if len(actions) == 1:
            raise Difference(f"{self.world.name}: the conversation took another turn than in the mirror")
        self._actions = (actions[0], actions[1]) if actions else None
        return list(ends[0]) if ends else []

    # ---- replies

    async def catch_up(self, index: int | None = None) -> tuple[list[Reply], list[Reply]]:
        """Wait for the replies that are due and compare them: (the server's, the mirror's), in the order of requests.

        `index`: the request that was just sent: if it must be parked, no reply may come for a while.
        """
        began_ms = self.clock.now_ms()
        expected = await self._due({})
        if index is not None and index not in expected:
            await self.clock.sleep(QUIET_MS)
            await self.world.handled(self.stage.sent[index].get("GroupId") or self.stage.group(GROUPS[0]) or "")
        real = in_order(self.world.taken(), self.stage)
        while not real.keys() <= expected.keys() and self._falls_due(began_ms):
            await self.clock.sleep(max((self.mirror.due_ms() or 0) - self.clock.now_ms(), 1))
            self.mirror.live_until(self.clock.now_ms())
            expected |= await self._due(real)
            real |= in_order(self.world.taken(), self.stage)
        try:
            self._compare(real, expected)
        except Difference:
            state = self.mirror.core.state
            classic = [group for group in state.groups if classic_group(state, group) is not None]
            groups = [group for group in classic if len(self.ways.candidates(group)) > 1]
            if self.ways.open_by:
                raise OpenQuestion(self.ways.open_by) from None
            if groups:
                self.ways.met[LEADER] += 1
                raise OpenQuestion(LEADER) from None
            raise
        return list(real.values()), list(expected.values())

    async def _due(self, came: Mapping[int, Reply]) -> dict[int, Reply]:
        """The mirror's answers. The server must give them too (some have already come)."""
        expected = in_order(self.mirror.taken(), self.twin)

        def here() -> bool:
            return expected.keys() - came.keys() <= {position(reply, self.stage) for reply in self.world.arrived()}

        await self.world.until(here, PATIENCE_S)
        return expected

    def _falls_due(self, began_ms: int) -> bool:
        """Whether this waited so long that a deadline that is near in the mirror has passed on the server meanwhile."""
        due_ms, now_ms = self.mirror.due_ms(), self.clock.now_ms()
        return due_ms is not None and now_ms - began_ms > SLOW_MS and due_ms <= now_ms + SLOW_MS

    async def agree(self) -> None:
        """Wait until the server has handled the deadlines that the mirror has handled: then both describe the groups
        alike.

        If that never happens, the next steps show it.
        """
        until_ms = self.clock.now_ms() + int(AGREE_S * 1000)
        while not await self._is_agreed() and self.clock.now_ms() < until_ms:
            await self.clock.sleep(AGAIN_MS)

    async def _is_agreed(self) -> bool:
        bodies = await self.world.described(_descriptions(self.stage))
        if bodies is None:
            return True
        unseen = {self._twin_names.text(group) for group in self.ways.unseen()}
        self.mirror.live_until(self.clock.now_ms())
        for (api, version, request), body in zip(_descriptions(self.twin), bodies, strict=True):
            expected = self.mirror.described(api, version, request)
            theirs, ours = (Reply("", api, version, request, one, 0) for one in (body, expected))
            if plain(theirs, self._names, unseen) != plain(ours, self._twin_names, unseen):
                return False
        return True

    def _compare(self, real: dict[int, Reply], expected: dict[int, Reply]) -> None:
        if self._following is not None:
            for reply in real.values():
                self._following.adopt(self.mirror, reply, list(expected.values()))
        for names, replies in ((self._names, real), (self._twin_names, expected)):
            for index, reply in replies.items():
                names.learn(index, reply)
        self._follow_leaders(real, expected)
        for index in real.keys() & expected.keys():
            self.late_ms = max(self.late_ms, int(real[index].took_ms - expected[index].took_ms))
        for index in sorted(real.keys() | expected.keys()):
            here, there = real.get(index), expected.get(index)
            if here is None or there is None:
                reply = here or there
                assert reply is not None
                what = f"{reply.actor}'s {reply.api} v{reply.version}"
                text = "answered, not parked" if there is None else "not answered"
                names = self._names if there is None else self._twin_names
                raise Difference(f"{self.world.name}: {what} was {text}: {dumped(plain(reply, names))}")
            unseen = {self._twin_names.text(group) for group in self.ways.unseen()}
            body = plain(here, self._names, unseen)
            lines = differences(body, plain(there, self._twin_names, unseen))
            if lines:
                what = f"{self.world.name}: {here.actor}'s {here.api} v{here.version}"
                raise Difference(f"{what}: {'; '.join(lines)}")
            self.reported[index] = dumped(body)

    def _follow_leaders(self, real: dict[int, Reply], expected: dict[int, Reply]) -> None:
        """If the choice of the leader was open, follow the server's."""
        for index, reply in real.items():
            mirrored = expected.get(index)
            if mirrored is None or not tells_leader(reply) or not tells_leader(mirrored):
                continue
            group_id = mirrored.request["GroupId"]
            names = {self._twin_names.text(one): one for one in self.ways.candidates(group_id)}
            leader = self._names.text(reply.body["Leader"])
            if leader in names:
                self.ways.settle(group_id)
                if leader != self._twin_names.text(mirrored.body["Leader"]):
                    self.ways.met[LEADER] += 1
                    self.mirror.follow(group_id, names[leader], list(expected.values()))

    async def overhear(self, *, within_step: bool) -> list[str]:
        """Time has passed: the outcome lines of the replies. In the middle of a step they belong to the step."""
        real, expected = await self.catch_up()
        if within_step:
            self._held[0].extend(real)
            self._held[1].extend(expected)
            return []
        say(self.twin, expected)
        return say(self.stage, real)


def _descriptions(stage: Stage) -> list[Described]:
    """The requests that describe the groups of a history."""
    groups = [stage.group(name) for name in GROUPS]
    return [
        ("DescribeGroups", 6, {"Groups": groups, "IncludeAuthorizedOperations": False}),
        ("ConsumerGroupDescribe", 1, {"GroupIds": groups, "IncludeAuthorizedOperations": False}),
    ]


def position(reply: Reply, stage: Stage) -> int:
    """The index of the request that the reply answers."""
    return next(i for i, body in enumerate(stage.sent) if body is reply.request)


def in_order(replies: Sequence[Reply], stage: Stage) -> dict[int, Reply]:
    """Replies by the index of their request, in that order."""
    return dict(sorted(((position(reply, stage), reply) for reply in replies), key=lambda pair: pair[0]))


def with_ids(line: str, stage: Stage) -> str:
    """`{B}` is the present member id of B, by its label; `none` when it has none."""

    def label(found: re.Match[str]) -> str:
        actor = stage.actors.get(found[1])
        return "none" if actor is None or not actor.member else stage.label(actor.member)

    return re.sub(r"\{(\w)\}", label, line)
