"""Groups to assign to. They are drawn from a seed, written as lines of JSON for Java, and read back."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from struct import pack
from typing import Any

from muster.assignors.assignor import Assignment, Member, Topic

Answer = list[list[list[Any]]]
"""For each member of a case, in its order: [topic, [partition, ...]] in the order of the wire."""
SERVER = ("uniform", "server-range", "simple")


@dataclass(frozen=True)
class Case:
    """One call of one strategy."""

    strategy: str
    members: Sequence[Member]
    topics: Mapping[str, Topic]
    assignable: Mapping[str, Sequence[int]] | None = None
    """The partitions that "simple" may assign, by topic; None: all."""

    def line(self) -> str:
        """The line that tests/conformance/Assignors.java reads."""
        members = [
            [
                m.member_id,
                list(m.topics),
                m.owned,
                m.generation,
                m.instance_id,
                m.rack,
                _hex(m.user_data),
            ]
            for m in self.members
        ]
        topics = {
            name: [t.partitions, [sorted(racks) for racks in t.racks] or None, t.topic_id.hex()]
            for name, t in self.topics.items()
        }
        case = {"strategy": self.strategy, "members": members, "topics": topics}
        if self.assignable is not None:
            case["assignable"] = self.assignable
        return json.dumps(case, separators=(",", ":"))


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def read_case(line: str) -> Case:
    """Return the case that `Case.line` wrote."""
    given = json.loads(line)
    members = [
        Member(m[0], tuple(m[1]), m[2], m[3], m[4], m[5], None if m[6] is None else bytes.fromhex(m[6]))
        for m in given["members"]
    ]
    topics = {name: Topic(n, racks or (), bytes.fromhex(uuid)) for name, (n, racks, uuid) in given["topics"].items()}
    return Case(given["strategy"], members, topics, given.get("assignable"))


def answer(case: Case, assignment: Assignment) -> Answer:
    """An assignment as Java's program writes it."""
    return [[[t, p] for t, p in assignment[m.member_id].items()] for m in case.members]


def as_recorded(case: Case, said: Answer) -> Answer:
    """An answer as a server records it: an unchanged target has no record, and so its order means nothing."""
    if case.strategy not in ("uniform", "server-range"):
        return said
    made = []
    for m, rows in zip(case.members, said, strict=True):
        in_order = sorted([t, sorted(p)] for t, p in rows)
        is_unchanged = in_order == sorted([t, sorted(p)] for t, p in m.owned.items())
        made.append(in_order if is_unchanged else rows)
    return made


def sticky_data(owned: Mapping[str, Sequence[int]], generation: int | None) -> bytes:
    """The sticky strategy's user data, version 1, or version 0 without generation."""
    data = pack(">i", len(owned))
    for topic, partitions in owned.items():
        name = topic.encode()
        data += pack(f">h{len(name)}si{len(partitions)}i", len(name), name, len(partitions), *partitions)
    return data if generation is None else data + pack(">i", generation)


def draw_case(rng: random.Random, strategy: str) -> Case:
    """A group of a few members, sometimes of dozens, with all kinds of data that a leader may get."""
    known = _topics(rng)
    names = [*known, *rng.sample(["gone", "missing", "Aa", "BB"], rng.choice([0, 0, 1, 2]))]
    members = _members(rng, names)
    members = _with_racks(rng, members, known) if rng.random() < 0.35 else members
    if rng.random() < 0.8:
        members = _with_claims(rng, strategy, members, known, names)
    rng.shuffle(members)
    topics = {name: replace(topic, topic_id=rng.randbytes(16)) for name, topic in known.items()}
    assignable = None
    if strategy == "simple" and rng.random() < 0.5:
        assignable = {
            name: [p for p in range(topic.partitions) if rng.random() < 0.8]
            for name, topic in topics.items()
            if rng.random() < 0.9
        }
    return Case(strategy, members, topics, assignable)


def _topics(rng: random.Random) -> dict[str, Topic]:
    names = [f"topic{i}" for i in range(1, 20)] if rng.random() < 0.6 else _colliding(rng, 19)
    count = rng.choice([1, 1, 2, 2, 3, 4, 5, 8, 16])
    alike = rng.choice([None, None, rng.randint(1, 12)])
    most = rng.choice([3, 10, 10, 40]) if count < 8 else 8
    return {
        name: Topic(alike or rng.randint(0 if rng.random() < 0.1 else 1, most))
        for name in rng.sample(names, min(count, len(names)))
    }


def _colliding(rng: random.Random, count: int) -> list[str]:
    """Names; up to four of these names have the same hash code, as "Aa" and "BB" have."""
    drawn = (rng.choice("stuvwxyz") + "".join(rng.choice(["Aa", "BB"]) for _ in range(2)) for _ in range(count))
    return list(dict.fromkeys(drawn))


def _members(rng: random.Random, names: Sequence[str]) -> list[Member]:
    count = rng.choice([1, 2, 3, 3, 4, 5, 6, 8, 10, 13, 25, 40])
    style = rng.random()
    if style < 0.5:
        ids = [f"consumer-g-{i}-{rng.getrandbits(64):016x}" for i in range(count)]
    elif style < 0.8:
        ids = [f"c{i}" for i in range(count)]
    elif style < 0.95:
        ids = _colliding(rng, count)
    else:
        ids = [rng.choice("\uffee\U0001f600\u00e9z") + str(i) for i in range(count)]
    static, same = rng.choice([0, 0, 0, 0.5, 1]), rng.choice([1, 1, 1, 2])
    subscription = _subscriptions(rng, names)
    return [
        Member(
            member_id,
            subscription(),
            instance_id=f"i{rng.randint(0, 99)}-{i // same}" if rng.random() < static else None,
        )
        for i, member_id in enumerate(ids)
    ]


def _subscriptions(rng: random.Random, names: Sequence[str]) -> Any:
    mode = rng.random()
    if mode < 0.5:
        everything = tuple(rng.sample(names, len(names)))
        return lambda: everything
    if mode < 0.55:
        return lambda: tuple(rng.sample(names, len(names)))
    if mode < 0.75:
        few = [tuple(rng.sample(names, rng.randint(1, len(names)))) for _ in range(2)]
        return lambda: rng.choice(few)
    if mode < 0.97:
        least = rng.choice([0, 1])
        return lambda: tuple(rng.sample(names, rng.randint(min(least, len(names)), len(names))))
    return lambda: tuple(rng.choices(names, k=rng.randint(1, len(names))))


def _with_racks(rng: random.Random, members: Sequence[Member], known: dict[str, Topic]) -> list[Member]:
    racks = [f"r{i}" for i in range(rng.randint(1, 5))]
    replicas = rng.choice([1, 2, 3])
    for name, topic in known.items():
        if rng.random() < 0.9:
            drawn = [
                rng.sample(racks, min(len(racks), rng.choice([replicas, replicas, 1]))) for _ in range(topic.partitions)
            ]
            known[name] = replace(topic, racks=drawn)
    known_racks = rng.choice([1, 1, 0.7])
    theirs = [*racks, "elsewhere"] if rng.random() < 0.3 else racks
    return [replace(m, rack=rng.choice(theirs) if rng.random() < known_racks else None) for m in members]


def _with_claims(
    rng: random.Random, strategy: str, members: Sequence[Member], known: Mapping[str, Topic], names: Sequence[str]
) -> list[Member]:
    owned: list[dict[str, list[int]]] = [{} for _ in members]
    lost, doubled = rng.choice([0, 0.1, 0.1, 0.3, 0.8]), rng.choice([0, 0, 0.05, 0.3])
    skewed, any_topic = rng.random() < 0.3, rng.random() < 0.2
    partitions = [(name, p) for name in names for p in range(known[name].partitions if name in known else 2)]
    rng.shuffle(partitions)
    for name, p in partitions:
        takers = [i for i, m in enumerate(members) if any_topic or name in m.topics]
        if not takers or rng.random() < lost:
            continue
        taker = takers[0] if skewed and rng.random() < 0.7 else rng.choice(takers)
        owned[taker].setdefault(name, []).append(p)
        if strategy not in SERVER and rng.random() < doubled:
            owned[rng.choice(takers)].setdefault(name, []).append(p)
        if strategy == "simple":
            for other in rng.sample(takers, rng.randint(0, len(takers)) if doubled else 0):
                if other != taker:
                    owned[other].setdefault(name, []).append(p)
    if strategy in SERVER:
        return [replace(m, owned=claims) for m, claims in zip(members, owned, strict=True)]
    newest, stale, silent = rng.randint(0, 9), rng.choice([0, 0, 0.2, 0.5]), rng.choice([0, 0, 0, 0.3, 1])
    claiming = []
    for m, claims in zip(members, owned, strict=True):
        generation = newest - rng.randint(1, 3) if rng.random() < stale else newest
        on_wire = -1 if rng.random() < silent else max(-1, generation)
        if strategy == "sticky":
            claiming.append(replace(m, generation=on_wire, user_data=_sticky_user_data(rng, claims, generation)))
        else:
            reported = rng.choice([None, pack(">i", generation), pack(">i", generation), b"", b"\0"])
            claiming.append(replace(m, owned=claims, generation=on_wire, user_data=reported))
    return claiming


def _sticky_user_data(rng: random.Random, claims: Mapping[str, list[int]], generation: int) -> bytes | None:
    kind = rng.random()
    if kind < 0.85:
        return sticky_data(claims, generation)
    if kind < 0.9:
        return sticky_data(claims, None)
    return rng.choice([None, b"", b"\0\0\0\1\0", sticky_data(claims, generation)[:-5], sticky_data(claims, 1) + b"?"])
