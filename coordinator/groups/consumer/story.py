"""The events of a consumer group for the history: one function for each thing that happens. Decides nothing.

A `Story` goes from the first new epoch until every member has come to the target. It is there only meanwhile, and it is
bounded, also where thousands of members and partitions move: the first rows are told, the others are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import MemberFacts, Trigger
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import AWAY, ConsumerMember, Position
from muster.coordinator.groups.consumer.partitions import NOTHING, Held, Share, same_partitions
from muster.coordinator.groups.consumer.states import STABLE, STABLE_GROUP, UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS

MOST_TOLD: Final = 20
"""Members of one story whose way to the target is told each by an event of its own; topics that have changed."""
MOST_SLOW: Final = 10
"""Of those that took longest, in the event at the end; as many that others waited for."""
MOST_HOLDERS: Final = 100
"""Of those that others waited for, while it lasts."""
MOST_FREED: Final = 20_000
"""Partitions without an owner whose time is taken; of others it is not told how long nobody had them."""
MOST_PARTITIONS: Final = 100
"""That a member gave up, told one by one; and topics that it subscribes to."""

Change = tuple[str, Share, Share]
"""A member whose target is another now: its id, the one before, the new one."""


class _Way:
    """The way of one member to its target, while it is on it."""

    __slots__ = ("assigned", "began_ms", "lacking_ms", "revoked", "revoking_ms", "told_ms", "waited_ms", "waits_for")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.told_ms: int | None = None
        self.lacking_ms: int | None = None
        self.revoked: list[Held] = []
        self.revoking_ms = self.waited_ms = self.assigned = 0
        self.waits_for: dict[str, int] = {}


class _Holder:
    """A member that has partitions for which others wait."""

    __slots__ = ("partitions", "since_ms", "until_ms", "who")

    def __init__(self, who: Trigger, since_ms: int) -> None:
        self.who = who
        self.since_ms = since_ms
        self.until_ms: int | None = None
        self.partitions = 0


class Story:
    """See the module. Times are monotonic ms. `cause` and `trigger`: of its first epoch; None: that was not seen.
    `causes`: how many epochs each had. `wanted_ms`: when targets began to be computed elsewhere; `target_ms`: when the
    last were there. `freed`: since when partitions are on their way from one member to another; `paused_ms`: how long
    those were that have arrived, added up.
    """

    __slots__ = (
        "assigned", "assignor", "began_ms", "bumped_ms", "cause", "causes", "changed", "epochs", "first_epoch",
        "freed", "holders", "paused_ms", "revoked", "slowest", "target_ms", "told", "trigger", "wanted_ms", "ways",
    )  # fmt: skip

    def __init__(self, first_epoch: int, mono_ms: int, cause: str | None, trigger: Trigger | None) -> None:
        self.first_epoch = first_epoch
        self.began_ms = self.bumped_ms = self.target_ms = mono_ms
        self.cause, self.trigger = cause, trigger
        self.causes: dict[str, int] = {}
        self.epochs = 0
        self.wanted_ms: int | None = None
        self.assignor: str | None = None
        self.ways: dict[str, _Way] = {}
        self.holders: dict[str, _Holder] = {}
        self.slowest: list[dict[str, Any]] = []
        self.told = self.changed = self.revoked = self.assigned = self.paused_ms = 0
        self.freed: dict[tuple[bytes, int], int] = {}


# ---- members


def trigger(member_id: str, member: ConsumerMember, reason: str | None = None) -> Trigger:
    """A member as the one that brought something about."""
    said = member.said
    return Trigger(member_id, said.instance_id, said.client_id, said.client_host, reason)


def _facts(step: Step, member: ConsumerMember) -> MemberFacts:
    said, classic = member.said, member.said.classic
    session_ms = (
        step.state.settings.group_consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
    )
    return MemberFacts(
        member.member_id, said.instance_id, said.client_id, said.client_host, session_ms, said.rebalance_timeout_ms,
        () if classic is None else classic.protocols, None, None, None, b"",
    )  # fmt: skip


def joined(step: Step, group: ConsumerGroup, member: ConsumerMember, reason: str | None = None) -> None:
    """A new member is in the group."""
    said = member.said
    step.event(
        events.MEMBER_JOINED,
        group.group_id,
        member=_facts(step, member),
        protocol_type=group.protocol_type,
        reason=reason,
        protocol="consumer" if said.classic is None else "classic",
        subscribed=list(said.topics[:MOST_PARTITIONS]),
        pattern=said.pattern or None,
        assignor=said.assignor,
    )


def replaced(step: Step, group: ConsumerGroup, old: ConsumerMember, member: ConsumerMember) -> None:
    """A static member goes on under another id."""
    if group.story is not None:
        group.story.ways.pop(old.member_id, None)
    facts = _facts(step, member)
    step.event(events.MEMBER_REPLACED, group.group_id, member=facts, replaced=old.member_id, reason=None)


def gone_away(step: Step, group: ConsumerGroup, member: ConsumerMember) -> None:
    """A static member has said that it will be back."""
    step.event(events.MEMBER_AWAY, group.group_id, member=_facts(step, member))
    if group.story is not None:
        _released(group.story, member.member_id, step.now.mono_ms)
        if _is_settled(group):
            _finished(step, group, group.story)


def gone(step: Step, group: ConsumerGroup, members: Iterable[ConsumerMember], cause: str, reasons: Any = None) -> None:
    """These members are about to be removed; `reasons`: as the clients gave them, by member id."""
    story = _story(step, group)
    for member in members:
        facts = _facts(step, member)
        _hand_over(story, member.at.assigned, NOTHING, step.now.mono_ms)
        if cause == events.LEFT:
            reason = None if reasons is None else reasons.get(member.member_id)
            step.event(events.MEMBER_LEFT, group.group_id, member=facts, reason=reason)
        elif cause == events.SESSION_EXPIRED:
            step.event(events.MEMBER_EXPIRED, group.group_id, member=facts)
        else:
            step.event(events.MEMBER_REMOVED, group.group_id, member=facts, cause=cause)
        story.ways.pop(member.member_id, None)
        _released(story, member.member_id, step.now.mono_ms)


# ---- epochs and targets


def bumped(
    step: Step,
    group: ConsumerGroup,
    cause: str,
    by: Trigger | None = None,
    before: Mapping[str, TopicImage] | None = None,
    state: str | None = None,
) -> None:
    """The group has a new epoch. `before`: the topics as they were, if that is the cause and they are known."""
    now_ms = step.now.mono_ms
    story = group.story
    if not group.members:
        story = group.story = None
    elif story is None:
        story = group.story = Story(group.epoch, now_ms, cause, by)
    if story is not None:
        if not story.epochs:  # the members that went stood before it
            story.first_epoch, story.cause, story.trigger = group.epoch, cause, by
        story.bumped_ms = now_ms
        story.epochs += 1
        story.causes[cause] = story.causes.get(cause, 0) + 1
    topics = [] if before is None else _changed_topics(group, before, step.state.image)
    step.event(
        events.EPOCH_BUMPED,
        group.group_id,
        epoch=group.epoch,
        cause=cause,
        trigger=by,
        members=len(group.members),
        topics=topics,
        state=state or group.state,
    )


def _changed_topics(
    group: ConsumerGroup, before: Mapping[str, TopicImage], image: TopicsImage
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in group.names:
        then, now = before.get(name), image.by_name.get(name)
        if then is not now and len(rows) < MOST_TOLD:
            had, has = (0 if one is None else one.partitions for one in (then, now))
            again = then is not None and now is not None and then.topic_id != now.topic_id
            if had != has or again:
                rows.append({"topic": name, "before": had, "now": has, "made_again": again})
    return rows


def wanted(step: Step, group: ConsumerGroup) -> None:
    """The targets of the epoch are being computed elsewhere."""
    _story(step, group).wanted_ms = step.now.mono_ms


def assigned(step: Step, group: ConsumerGroup, assignor: str, changes: Sequence[Change]) -> None:
    """The targets are there."""
    story, now_ms = _story(step, group), step.now.mono_ms
    took_ms = 0 if story.wanted_ms is None else now_ms - story.wanted_ms
    story.wanted_ms, story.target_ms, story.assignor = None, now_ms, assignor
    step.event(
        events.TARGET_ASSIGNED,
        group.group_id,
        epoch=group.assignment_epoch,
        assignor=assignor,
        took_ms=took_ms,
        since_epoch_ms=now_ms - story.bumped_ms,
        members=len(group.members),
        topics=len(group.names),
        changes=tuple(changes),
        names=step.state.image,
    )


def failed(step: Step, group: ConsumerGroup, epoch: int, assignor: str) -> None:
    """The assignor could not say who is to own what."""
    story, now_ms = _story(step, group), step.now.mono_ms
    took_ms = 0 if story.wanted_ms is None else now_ms - story.wanted_ms
    story.wanted_ms = None
    step.event(events.TARGET_FAILED, group.group_id, epoch=epoch, assignor=assignor, took_ms=took_ms)


def _story(step: Step, group: ConsumerGroup) -> Story:
    """It has begun before this core was loaded if it is not there."""
    story: Story | None = group.story
    if story is None:
        story = group.story = Story(group.epoch, step.now.mono_ms, None, None)
    return story


# ---- on the way to the target


def moved(step: Step, group: ConsumerGroup, member: ConsumerMember, before: Position) -> None:
    """A member has come a step nearer to its target."""
    story, now_ms, after, member_id = _story(step, group), step.now.mono_ms, member.at, member.member_id
    way = story.ways.get(member_id)
    _hand_over(story, before.assigned, after.assigned, now_ms)
    if way is not None or after.state != STABLE or not same_partitions(before.assigned, after.assigned):
        if way is None:
            way = story.ways[member_id] = _Way(max(story.target_ms, story.began_ms))
        _note(step, group, story, way, member, before)
    if member_id in story.holders and after.state != UNREVOKED_PARTITIONS:
        _released(story, member_id, now_ms)
    if after.state == STABLE and after.epoch == group.assignment_epoch:
        if way is not None:
            del story.ways[member_id]
            _arrived(step, group, story, way, member)
        if _is_settled(group):
            _finished(step, group, story)


def _hand_over(story: Story, before: Held, after: Held, now_ms: int) -> None:
    """A member does not have any more what is not in `after`, and has what was not in `before`."""
    if same_partitions(before, after):
        return
    freed, had = story.freed, {row[0]: row[1] for row in before}
    for topic_id, partitions, _ in after:
        mine = had.pop(topic_id, ())
        if mine != partitions:
            for partition in set(partitions).difference(mine):
                since_ms = freed.pop((topic_id, partition), None)
                story.paused_ms += 0 if since_ms is None else now_ms - since_ms
            _free(freed, topic_id, set(mine).difference(partitions), now_ms)
    for topic_id, mine in had.items():
        _free(freed, topic_id, mine, now_ms)


def _free(freed: dict[tuple[bytes, int], int], topic_id: bytes, partitions: Iterable[int], now_ms: int) -> None:
    if len(freed) < MOST_FREED:
        for partition in partitions:
            freed[topic_id, partition] = now_ms


def _note(step: Step, group: ConsumerGroup, story: Story, way: _Way, member: ConsumerMember, before: Position) -> None:
    now_ms, after = step.now.mono_ms, member.at
    if before.state == UNREVOKED_PARTITIONS and way.told_ms is not None:
        way.revoking_ms += now_ms - way.told_ms
        way.told_ms = None
    if before.state == UNRELEASED_PARTITIONS and way.lacking_ms is not None:
        way.waited_ms += now_ms - way.lacking_ms
        way.lacking_ms = None
    had, has = _size(before.assigned), _size(after.assigned)
    if after.state == UNREVOKED_PARTITIONS:
        way.told_ms = now_ms
        if not same_partitions(after.revoking, before.revoking):
            way.revoked.append(after.revoking)
        return
    if has > had:
        way.assigned += has - had
    elif has < had and before.state != UNREVOKED_PARTITIONS:
        # it had given them up before it was told
        way.revoked.append(_lost(before.assigned, after.assigned))
    if after.state == UNRELEASED_PARTITIONS:
        way.lacking_ms = now_ms
        _look_for_holders(group, story, way, member)


def _look_for_holders(group: ConsumerGroup, story: Story, way: _Way, member: ConsumerMember) -> None:
    way.waits_for = {}
    for topic_id, partitions in group.targets.get(member.member_id, NOTHING):
        of_topic = group.holders.get(topic_id, {})
        for partition in partitions:
            who = of_topic.get(partition, member.member_id)
            if who != member.member_id:
                way.waits_for[who] = way.waits_for.get(who, 0) + 1
    for who, count in way.waits_for.items():
        holder = story.holders.get(who)
        there = group.members.get(who)
        if holder is None and there is not None and len(story.holders) < MOST_HOLDERS:
            holder = story.holders[who] = _Holder(trigger(who, there), story.target_ms)
        if holder is not None:
            holder.until_ms = None
            holder.partitions = max(holder.partitions, count)


def _released(story: Story, member_id: str, now_ms: int) -> None:
    holder = story.holders.get(member_id)
    if holder is not None and holder.until_ms is None:
        holder.until_ms = now_ms


def _arrived(step: Step, group: ConsumerGroup, story: Story, way: _Way, member: ConsumerMember) -> None:
    revoked = sum([_size(one) for one in way.revoked])
    story.changed += 1
    story.revoked += revoked
    story.assigned += way.assigned
    took_ms = step.now.mono_ms - way.began_ms
    row = {
        "member": _named(trigger(member.member_id, member)),
        "revoked": revoked,
        "revoking_ms": way.revoking_ms,
        "assigned": way.assigned,
        "waited_ms": way.waited_ms,
        "took_ms": took_ms,
    }
    if len(story.slowest) < MOST_SLOW or took_ms > story.slowest[-1]["took_ms"]:
        story.slowest.append(row)
        story.slowest.sort(key=lambda one: -one["took_ms"])
        del story.slowest[MOST_SLOW:]
    if story.told >= MOST_TOLD:
        return
    story.told += 1
    waits_for = sorted(way.waits_for, key=lambda who: -way.waits_for[who])[:MOST_SLOW]
    step.event(
        events.MEMBER_RECONCILED,
        group.group_id,
        **row,
        epoch=member.at.epoch,
        gave_up=_listed(way.revoked, step.state.image),
        waited_for=waits_for,
    )


def _is_settled(group: ConsumerGroup) -> bool:
    """Whether all members have come to their targets. Nobody waits for static members that are away."""
    if group.state == STABLE_GROUP:
        return True
    epoch = group.assignment_epoch
    return (
        bool(group.static_ids)
        and group.epoch == epoch
        and all(one.at.epoch == AWAY or one.is_reconciled_to(epoch) for one in group.members.values())
    )


def _finished(step: Step, group: ConsumerGroup, story: Story) -> None:
    group.story = None
    if not (story.epochs or story.revoked or story.assigned):
        return  # a static member came back to what it had
    now_ms = step.now.mono_ms
    slow = sorted(story.holders.values(), key=lambda one: (one.until_ms or now_ms) - one.since_ms, reverse=True)
    step.event(
        events.EPOCH_RECONCILED,
        group.group_id,
        epoch=group.assignment_epoch,
        first_epoch=story.first_epoch,
        epochs=story.epochs,
        cause=story.cause,
        trigger=story.trigger,
        causes=story.causes,
        assignor=story.assignor,
        took_ms=None if story.cause is None else now_ms - story.began_ms,
        members=len(group.members),
        changed=story.changed,
        revoked=story.revoked,
        assigned=story.assigned,
        partitions=sum([len(of_topic) for of_topic in group.holders.values()]),
        paused_partition_ms=story.paused_ms,
        slowest=story.slowest,
        waited_for=[
            {
                "member": _named(one.who),
                "partitions": one.partitions,
                "took_ms": (one.until_ms or now_ms) - one.since_ms,
            }
            for one in slow[:MOST_SLOW]
        ],
    )


def _named(who: Trigger) -> dict[str, str | None]:
    return {"member": who.member, "instance": who.instance, "client_id": who.client_id, "host": who.host}


def _size(held: Held) -> int:
    return sum([len(row[1]) for row in held])


def _lost(before: Held, after: Held) -> Held:
    kept = {row[0]: row[1] for row in after}
    rows = []
    for topic_id, partitions, epochs in before:
        lost = [one for one in zip(partitions, epochs, strict=True) if one[0] not in kept.get(topic_id, ())]
        if lost:
            rows.append((topic_id, tuple([one[0] for one in lost]), tuple([one[1] for one in lost])))
    return tuple(rows)


def _listed(gave_up: Sequence[Held], image: TopicsImage) -> list[dict[str, object]]:
    """The first of the partitions, by the names of their topics."""
    rows: list[dict[str, object]] = []
    left = MOST_PARTITIONS
    for held in gave_up:
        for topic_id, partitions, _ in held:
            if left > 0:
                topic = image.by_id.get(topic_id)
                name = image.deleted.get(topic_id) if topic is None else topic.name
                rows.append({"topic": name, "partitions": list(partitions[:left])})
                left -= len(partitions)
    return rows


# ---- other protocols


def upgraded(step: Step, group: ConsumerGroup, by: Trigger) -> None:
    """A classic group has become this one."""
    step.event(events.GROUP_UPGRADED, group.group_id, epoch=group.epoch, members=len(group.members), trigger=by)


def downgraded(step: Step, group: ConsumerGroup, members: int, cause: str, by: Trigger | None) -> None:
    """This group becomes a classic one, of so many members."""
    step.event(
        events.GROUP_DOWNGRADED, group.group_id, epoch=group.epoch, members=members, cause=cause, trigger=by
    )  # fmt: skip
