"""Random histories: requests of some clients for two groups, as lines of the story format. One seed, one history.

A history is written without knowledge of the answers. Where a step needs a member id, it says `{B}`: the id that B has
by then (see `lockstep`). Only what conformance.md excludes from comparison is avoided. That is a subscription whose
bytes stop Kafka's group for good, and a protocol name that one member lists twice. Some requests are about
transactions: of any actor, and of offsets only.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from muster.conform.player.story import Story

TOPICS = "topics t1=3 t2=1"
LETTERS = "ABCDEF"
SESSIONS = ("30000", "30000", "30000", "2000", "1000")
REBALANCES = ("30000", "30000", "30000", "1500", "700")
PROTOCOLS = (
    "range",
    "range,roundrobin",
    "roundrobin,range",
    "range:a,roundrobin:b",
    "sticky,range",
    "range,sticky,roundrobin",
)
"""Protocols that members offer; `range` is in all, so that most groups find a common one."""
ODD_PROTOCOLS = ("roundrobin", "sticky:x", "none")
ADVANCES = (200, 500, 900, 1600)

Asks = tuple[tuple[str, ...], ...]
"""The arguments of a request: one of each tuple is taken."""

WRONG = ("",) * 12 + ("member=id:ghost", "member=none", "member={A}", "member={B}", "instance=i-a", "instance=i-x")
WRONG_GENERATION = ("",) * 12 + ("generation=+1", "generation=-1", "generation=0", "generation=1", "generation=-2")
NO_INSTANCE = ("",) * 9 + ("instance=none",)
OTHER_GROUP = ("",) * 30 + ("group=h",)
NO_GROUP = (*OTHER_GROUP, "group=none")
"""Where the empty id is refused. Elsewhere it is a group like any other, and all histories would share it."""
OFFSETS = ("t1/0=1", "t1/1=2 t2/0=3", "t1/2=4:note", "t2/0=5@3:null", "t1/0=6 nope/0=1", "t1/9=1", "t2/0=7:x*4097")
PENDING = ("t1/0=11", "t1/1=12 t2/0=13", "t1/2=14:note", "t2/0=15@3:null", "t1/0=16 nope/0=1", "t1/9=1")
"""Offsets that are committed in a transaction."""
PARTITIONS = ("t1/0", "t1/0 t1/1 t1/2 t2/0", "t2/0 t1/1", "t1/7 nope/0", "t1/0 t1/0")

REQUESTS: Mapping[str, tuple[int, Asks]] = {
    "join": (
        16,
        (
            ("",) * 7 + tuple(f"v={v}" for v in range(9)),
            ("",) * 6 + ("protocols",),
            ("",) * 8 + ("session", "rebalance", "topics=t1", "topics=t1,t2", "topics=none", "reason=because"),
            ("",) * 24 + ("type=connect", "type=consumer", "type=none", "session=50", "session=9999999"),
            WRONG,
            NO_INSTANCE,
            NO_GROUP,
        ),
    ),
    "enter": (8, (("",) * 4 + ("v=3", "v=4", "v=5", "v=7"), ("",) * 3 + ("protocols",))),
    "sync": (
        14,
        (
            ("",) * 5 + tuple(f"v={v}" for v in range(5)),
            ("", "assign={A}:a1,{B}:b1,{C}:c1", "assign={A}:mine,id:ghost:x", "assign={B}:y*50"),
            ("",) * 20 + ("protocol=roundrobin", "protocol=null", "type=connect", "type=null"),
            WRONG,
            WRONG_GENERATION,
            NO_INSTANCE,
            NO_GROUP,
        ),
    ),
    "heartbeat": (
        12,
        (("",) * 4 + tuple(f"v={v}" for v in range(4)), WRONG, WRONG_GENERATION, NO_INSTANCE, NO_GROUP),
    ),
    "leave": (
        7,
        (
            ("",) * 3
            + tuple(f"v={v}" for v in range(5))
            + ("{B}", "{C} {B}", "{A} {A}", "none(i-a) none(i-b)", "{B}(i-b)", "{B}(i-a)", "none(i-c)")
            + ("id:ghost", "nobody=yes", "{A} none(i-x) none", "v=3 {C} none(i-d)", "v=1 member={B}", "member=none"),
            NO_GROUP,
        ),
    ),
    "commit": (
        8,
        (
            ("",) * 5 + tuple(f"v={v}" for v in range(2, 11)),
            ("",) * 4 + ("generation=-1 member=none instance=none", "generation=-1 member=none instance=none group=h"),
            WRONG,
            WRONG_GENERATION,
            NO_INSTANCE,
            OTHER_GROUP,
            OFFSETS,
        ),
    ),
    "fetch": (
        5,
        (
            ("",) * 4
            + tuple(f"v={v}" for v in range(2, 11))
            + ("groups=g,h", "v=8 groups=h,g,nobody", "stable=yes", "v=8 stable=yes"),
            ("all", "all", *PARTITIONS),
        ),
    ),
    "describe": (7, (("",) * 4 + tuple(f"v={v}" for v in range(6)) + ("operations=yes",), ("", "", "", "g h", "h"))),
    "list": (
        3,
        (("",) * 2 + tuple(f"v={v}" for v in range(5)), ("", "", "states=Stable,Empty", "states=stable types=Classic")),
    ),
    "find": (1, (("", "v=4", "v=2"), ("g",))),
    "offset-delete": (3, (NO_GROUP, PARTITIONS)),
    "delete": (2, (("", "v=1", "v=0"), ("", "", "", "g h", "h", "nobody"))),
    "txn-init": (3, (("tx", "tx", "tx", "ty"), ("",) * 3 + ("own=yes",))),
    "txn-add-offsets": (4, (OTHER_GROUP,)),
    "txn-commit-offsets": (
        6,
        (
            ("", "", "v=2", "v=3", "v=5", "v=5"),
            ("", "", "", "member={A} generation=1", "member={B} generation=2", "member={C} generation=1 instance=i-c"),
            ("",) * 12 + ("member={B}", "instance=i-a", "instance=i-x", "generation=1", "member=id:ghost generation=3"),
            OTHER_GROUP,
            PENDING,
        ),
    ),
    "txn-end": (5, (("commit", "commit", "abort"), ("", "", "v=5"))),
    "restart": (5, ()),
    "drop": (2, ()),
}
"""Request -> (how often, its arguments)."""

TAKES_FILTERS = 4
"""The first version of ListGroups with a filter for states; the next version has one for types."""


def history(seed: int, broker: Mapping[str, str]) -> Story:
    """The history of that seed, for a server with those settings: a story without outcomes."""
    dice = random.Random(seed)
    actors = LETTERS[: dice.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 6))]
    settings = " ".join(f"{name}={value}" for name, value in broker.items())
    lines = [f"# random history {seed}", f"broker {settings}", TOPICS]
    entering = [f"{actor}: enter {_settings(dice, actor)}".strip() for actor in actors]
    lines += entering if dice.random() < 0.9 else entering[:1]
    requests, weights = list(REQUESTS), [often for often, _ in REQUESTS.values()]
    for _ in range(dice.randint(12, 40)):
        luck = dice.random()
        if luck < 0.14:
            lines += _round(dice, actors)
        elif luck < 0.17:
            lines += _afresh(dice, actors)
        elif luck < 0.23:
            lines.append(f"advance {dice.choice(ADVANCES)}")
        else:
            lines.append(_step(dice, actors, dice.choices(requests, weights)[0]))
            if dice.random() < 0.8:
                lines += _mended(lines[-1])
    return Story(f"random-{seed}", "\n".join(lines) + "\n")


def _settings(dice: random.Random, actor: str) -> str:
    words = [
        f"instance=i-{actor.lower()}" if dice.random() < 0.35 else "",
        f"protocols={dice.choice(PROTOCOLS)}" if dice.random() < 0.6 else "",
        f"topics={dice.choice(('t1', 't2', 't1,t2'))}" if dice.random() < 0.3 else "",
        f"session={dice.choice(SESSIONS)}" if dice.random() < 0.5 else "session=30000",
        f"rebalance={dice.choice(REBALANCES)}" if dice.random() < 0.5 else "rebalance=30000",
        f"v={dice.choice((3, 4, 5, 6))}" if dice.random() < 0.15 else "",
        f"client={dice.choice(('null', 'app'))}" if dice.random() < 0.05 else "",
    ]
    return _joined(words)


def _round(dice: random.Random, actors: str) -> list[str]:
    """Some actors join, some sync: what most groups do most of the time."""
    joining = list(actors)
    dice.shuffle(joining)
    everybody = " ".join(joining)
    some = " ".join(joining[: dice.randint(1, len(joining))])
    shares = ",".join(f"{{{actor}}}:{actor.lower()}{dice.randint(1, 9)}" for actor in actors)
    sync = dice.choice((f"{everybody}: sync assign={shares}", f"{everybody}: sync assign={shares}", f"{some}: sync"))
    return [f"{dice.choice((everybody, everybody, some))}: {dice.choice(('join', 'enter'))}", sync]


def _afresh(dice: random.Random, actors: str) -> list[str]:
    """Processes that end in order, or not, and start again."""
    some = " ".join(dice.sample(actors, dice.randint(1, len(actors))))
    return [*dice.choice(([], [f"{some}: leave"])), f"{some}: restart", f"{some}: enter"]


def _mended(line: str) -> list[str]:
    """An actor keeps its earlier settings: after a step that must be refused, another step restores them."""
    wrong = {"session=50": "session=30000", "session=9999999": "session=30000", "type=connect": "type=consumer"}
    wrong |= {"type=none": "type=consumer", "protocols=none": "protocols=range", "instance=i-x": "instance=none"}
    actor, _, rest = line.partition(": ")
    words = [right for word, right in wrong.items() if word in rest.split() and rest.startswith(("join", "enter"))]
    return [f"{actor}: join {' '.join(words)}"] if words else []


def _step(dice: random.Random, actors: str, request: str) -> str:
    actor = dice.choice(actors)
    words = [dice.choice(one) for one in REQUESTS[request][1]]
    if request == "list" and words[0]:
        version = int(words[0].removeprefix("v="))
        words[1] = words[1] if version > TAKES_FILTERS else "states=Empty" if version == TAKES_FILTERS else ""
    if request == "txn-commit-offsets" and words[0] == "v=2":
        words[1] = words[2] = ""
    if request == "fetch" and words[0] == "stable=yes":
        words[0] = "v=7 stable=yes"
    line = f"{actor}: {request} {_joined(words)}"
    line = line.replace(" protocols", f" protocols={dice.choice(PROTOCOLS + ODD_PROTOCOLS)}")
    line = line.replace(" session ", f" session={dice.choice(SESSIONS)} ").replace(
        " rebalance ", f" rebalance={dice.choice(REBALANCES)} "
    )
    return _only_once(line)


def _only_once(line: str) -> str:
    """If an argument was drawn twice, the later one counts; words that only name an argument are dropped."""
    head, _, rest = line.partition(": ")
    words = rest.split()
    kept = [
        word
        for i, word in enumerate(words)
        if word not in ("session", "rebalance") and not _again(word, words[i + 1 :])
    ]
    return f"{head}: {' '.join(kept)}"


def _again(word: str, later: list[str]) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and "/" not in name and any(other.startswith(f"{name}=") for other in later)


def _joined(words: list[str]) -> str:
    return " ".join(word for word in words if word)
