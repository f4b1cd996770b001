"""Groups as a test sees them: values that describe one moment, with words for readers of a failed test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from muster.coordinator.history.words import many, ranges, who

Offsets = Mapping[str, Mapping[int, int]]
"""A number for each partition, by topic: an offset, or a lag."""
Owned = Mapping[str, tuple[int, ...]]
"""Partitions by topic, ascending."""
Roles = Mapping[str, Owned]
"""Tasks of a streams group: for "active", "standby" and "warmup", the numbers of tasks by subtopology."""

STABLE: Final = "Stable"
MAX_NAMED: Final = 5
"""How many groups are named when the wanted group does not exist."""
DEAD: Final = "Dead"
"""The state of a group that does not exist, in Kafka's word."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member. `doing` says in words what the member has done of the present rebalance, or has to do next.

    `epoch`: the member epoch, or the generation of a classic member. `target`: the member's target assignment
    (KIP-848), or the `assignment` of a classic member. `revoking`: partitions that the member has to give up, and may
    still have. `subscribed`: topics by name; a classic member has topics only if it is a consumer. The partitions of a
    member of a streams group are those that its active tasks read.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    protocol: str
    """"classic", "consumer", "share" or "streams": the protocol of the member itself."""
    epoch: int
    doing: str
    assignment: Owned
    target: Owned
    revoking: Owned = field(default_factory=dict)
    subscribed: tuple[str, ...] = ()
    session_timeout_ms: int = 0
    is_leader: bool = False
    is_settled: bool = True
    """Whether the member has nothing left to do in the present rebalance, or no rebalance is in progress."""
    tasks: Mapping[str, Roles] = field(default_factory=dict)
    """In a streams group, the tasks of "assignment", "target" and "revoking". Members of other groups have none."""

    @property
    def names(self) -> tuple[str | None, ...]:
        """All names that a test may use for the member."""
        return self.member_id, self.instance_id, self.client_id

    def __str__(self) -> str:
        facts = {
            "member": self.member_id,
            "instance": self.instance_id,
            "client_id": self.client_id,
            "host": self.host,
        }
        copies = self.tasks.get("assignment", {})
        kept = "".join(f"; keeps {_task_words(copies[role])} as {role}" for role in _COPIES if role in copies)
        return f"{who(facts)}: {self.doing}; {_owned_words(self.assignment)}{kept}"


@dataclass(frozen=True, slots=True)
class RecordsView:
    """The records of one partition in a share group; -1 stands for what is not known.

    `first_open`: the oldest record that is neither accepted nor archived, or the next offset. `lag`: how many such
    records there are. `in_flight`: records that members hold; `held`: how many each member holds. `retried`: records
    with failed deliveries that are not done. The other figures count since the server's start.
    """

    start_offset: int
    end_offset: int
    first_open: int
    lag: int
    in_flight: int = -1
    retried: int = -1
    held: Mapping[str, int] = field(default_factory=dict)
    accepted: int = -1
    released: int = -1
    """Deliveries that ended without success, after which the record was available again."""
    archived: int = -1
    dead_letters: int = -1

    def __str__(self) -> str:
        names = ("lag", "in_flight", "retried", "accepted", "released", "archived", "dead_letters")
        known = [f"{getattr(self, name)} {name.replace('_', ' ')}" for name in names[1:] if getattr(self, name) > 0]
        return ", ".join([f"lag {self.lag}" if self.lag >= 0 else "an unknown lag", *known])


Records = Mapping[str, Mapping[int, RecordsView]]
"""The records of a share group, by topic and partition."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group at one moment. A group that does not exist is `DEAD` and has no members.

    `kind`: "classic", "consumer" (KIP-848), "share", "streams", or "" if the group does not exist. `generation`: the
    generation, or the group epoch. `protocol`: the assignor. `offsets`: committed, or a share group's start offsets.
    `end_offsets`: the end offsets of topics that the group has committed to, owns or subscribes to. `starts`: the start
    offsets of these partitions.
    """

    group_id: str
    kind: str
    state: str
    generation: int
    protocol: str | None
    members: tuple[MemberView, ...]
    offsets: Offsets
    end_offsets: Offsets
    starts: Offsets
    node: int = -1
    """The id of the node that coordinates the group; -1: no node does."""
    records: Records = field(default_factory=dict)
    """The records of a share group, by topic and partition. Other groups have none."""

    @property
    def assignment(self) -> Mapping[str, Mapping[int, str]]:
        """The owner of each partition: topic -> partition -> member id."""
        found: dict[str, dict[int, str]] = {}
        for member in self.members:
            for topic, partitions in member.assignment.items():
                found.setdefault(topic, {}).update(dict.fromkeys(partitions, member.member_id))
        return {topic: dict(sorted(owners.items())) for topic, owners in sorted(found.items())}

    @property
    def lag(self) -> Offsets:
        """The number of records after the committed offset, or of all records without one, for each partition. In a
        share group: the number of records that are neither accepted nor archived.
        """
        if self.records:
            return {topic: {one: max(its.lag, 0) for one, its in rows.items()} for topic, rows in self.records.items()}
        found: dict[str, dict[int, int]] = {}
        for topic, ends in self.end_offsets.items():
            committed = self.offsets.get(topic, {})
            starts = self.starts.get(topic, {})
            found[topic] = {one: max(end - committed.get(one, starts.get(one, 0)), 0) for one, end in ends.items()}
        return found

    @property
    def total_lag(self) -> int:
        """The sum of all numbers in `lag`."""
        return sum([sum(lags.values()) for lags in self.lag.values()])

    @property
    def is_stable(self) -> bool:
        """Whether the group has members, and none of them has anything left to do."""
        return self.state == STABLE and all(member.is_settled for member in self.members)

    def member(self, name: str) -> MemberView | None:
        """The member with this member id, group.instance.id or client id; None if not exactly one member has it."""
        for place in range(3):
            found = [one for one in self.members if one.names[place] == name]
            if len(found) == 1:
                return found[0]
        return None

    def as_json(self) -> dict[str, Any]:
        """The group as JSON: partitions that are keys are texts."""
        return {
            "group": self.group_id,
            "type": self.kind,
            "state": self.state,
            "generation": self.generation,
            "protocol": self.protocol,
            "node": self.node,
            "stable": self.is_stable,
            "members": [member_json(one) for one in self.members],
            **{
                name: {topic: _texts(rows) for topic, rows in getattr(self, name).items()}
                for name in ("assignment", "offsets", "end_offsets", "lag")
            },
            "total_lag": self.total_lag,
            "records": {topic: _texts(_as_dicts(rows)) for topic, rows in self.records.items()},
        }

    def as_fields(self) -> dict[str, Any]:
        """The fields of the group, for JSON. `of_fields` reads the result."""
        return asdict(self)

    @classmethod
    def of_fields(cls, given: Mapping[str, Any]) -> GroupView:
        """The group that `as_fields` has described in `given`."""
        offsets = {name: {topic: _numbers(rows) for topic, rows in given[name].items()} for name in _OFFSETS}
        members = tuple(map(_member_of, given["members"]))
        records = {
            topic: {int(one): RecordsView(**its) for one, its in rows.items()}
            for topic, rows in given.get("records", {}).items()
        }
        return cls(**{**given, **offsets, "members": members, "records": records})

    def __str__(self) -> str:
        if self.state == DEAD:
            return f"there is no group {self.group_id}"
        count = len(self.members)
        summary = f"group {self.group_id}: {self.state}, generation {self.generation}, {count} {many('member', count)}"
        if self.protocol:
            summary += f", {self.protocol}"
        lines = [summary, *(f"  {one}" for one in self.members)]
        if self.records:
            lines += [f"  {topic}-{one}: {its}" for topic, rows in self.records.items() for one, its in rows.items()]
        else:
            lines += [f"  lag of {topic}: {_lag_words(rows)}" for topic, rows in self.lag.items() if any(rows.values())]
        return "\n".join(lines)


def no_group(group_id: str) -> GroupView:
    """The view of a group that does not exist."""
    return GroupView(group_id, "", DEAD, -1, None, (), {}, {}, {})


def member_json(member: MemberView) -> dict[str, Any]:
    """The member as JSON."""
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "protocol": member.protocol,
        "epoch": member.epoch,
        "doing": member.doing,
        "leader": member.is_leader,
        "settled": member.is_settled,
        "session_timeout_ms": member.session_timeout_ms,
        "subscribed": list(member.subscribed),
        **{name: _lists(getattr(member, name)) for name in _OWNED},
        "tasks": {name: {role: _lists(owned) for role, owned in roles.items()} for name, roles in member.tasks.items()},
    }


def _lists(owned: Owned) -> dict[str, list[int]]:
    return {name: list(rows) for name, rows in owned.items()}


_OFFSETS: Final = ("offsets", "end_offsets", "starts")
"""The fields of a group with a number for each partition."""
_COPIES: Final = ("standby", "warmup")
"""The roles of tasks that only keep state."""
_OWNED: Final = ("assignment", "target", "revoking")
"""The fields of a member with partitions by topic."""


def _member_of(given: Mapping[str, Any]) -> MemberView:
    owned = {name: _tuples(given[name]) for name in _OWNED}
    tasks = {
        name: {role: _tuples(its) for role, its in roles.items()} for name, roles in given.get("tasks", {}).items()
    }
    return MemberView(**{**given, **owned, "subscribed": tuple(given["subscribed"]), "tasks": tasks})


def _tuples(owned: Mapping[str, Sequence[int]]) -> Owned:
    return {name: tuple(rows) for name, rows in owned.items()}


def _numbers(rows: Mapping[str, int]) -> dict[int, int]:
    return {int(one): offset for one, offset in rows.items()}


def _texts(rows: Mapping[int, Any]) -> dict[str, Any]:
    return {str(partition): value for partition, value in rows.items()}


def _as_dicts(rows: Mapping[int, RecordsView]) -> dict[int, dict[str, Any]]:
    return {one: asdict(its) for one, its in rows.items()}


def _owned_words(owned: Owned) -> str:
    if not owned:
        return "has no partitions"
    return "has " + ", ".join(f"{topic} {' '.join(map(str, rows))}" for topic, rows in owned.items())


def _task_words(tasks: Owned) -> str:
    return " ".join(f"{name}:{ranges(tasks[name])}" for name in tasks)


def _lag_words(rows: Mapping[int, int]) -> str:
    return ", ".join(f"{partition}: {lag}" for partition, lag in rows.items() if lag)


def others(group_ids: Sequence[str]) -> str:
    """The names of existing groups, for the report about a group that does not exist."""
    if not group_ids:
        return "there are no groups: no consumer has joined one"
    named = ", ".join(group_ids[:MAX_NAMED])
    more = len(group_ids) - MAX_NAMED
    return f"there {'are' if len(group_ids) > 1 else 'is'} {named}" + (f", and {more} more" if more > 0 else "")
