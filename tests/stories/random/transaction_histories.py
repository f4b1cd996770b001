"""Random histories of transactions: requests of some producers, two of them with one id. One seed, one history.

As with the histories of groups, the answers are not known. P and Q are two processes of one id, `tx`; R has `ty`. Each
is a client of transaction version 1 or 2, and sends other versions too. A is a member of the group g. A history has
nothing that leaves a transaction on Kafka open for ever: no markers of a later epoch than the coordinator's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from muster.conform.player.story import Story

OWN_TOPICS = "own-topics o=2 p=1"
TOPICS = "topics t1=3 t2=1"
IDS = {"P": "tx", "Q": "tx", "R": "ty"}
SHORT_MS = "700"
"""The timeout of a transaction that may time out within the history."""

Words = tuple[str, ...]
Asks = tuple[Words, ...]
"""The arguments of a request: one of each tuple is taken."""

WRONG_PRODUCER = ("",) * 24 + (
    "epoch=-1",
    "epoch=+1",
    "producer=ghost",
    "id=unknown",
    "id=none",
    "epoch=0",
    "epoch=none",
)
LOST = ("",) * 14 + ("unheard=yes",)
PARTITIONS = ("o/0", "o/0", "o/1", "p/0", "o/0 o/1", "o/0 o/1 p/0", "p/0 o/1", "nope/0", "o/0 nope/0", "o/7 o/1")
RECORDS = ("o/0=a", "o/0=b,c", "o/1=d", "p/0=e", "o/0=f o/1=g", "o/0=h,i,j p/0=k o/1=l", "o/1=m nope/0=n", "o/9=x")
OFFSETS = ("t1/0=1", "t1/1=2 t2/0=3", "t1/2=4:note", "t1/0=5 t1/1=6", "t2/0=5@3:null", "t1/0=6 nope/0=1", "t1/9=1")
GROUPS = ("",) * 5 + ("group=h",) * 3 + ("group=none",)
MEMBERS = (
    *("",) * 10,
    "member={A} generation=1",
    "member={A} generation=1",
    "member={A} generation=2",
    "member=id:ghost generation=1",
    "generation=1",
    "member={A} generation=1 instance=i-a",
    "instance=i-x generation=1",
)
READ = ("o/0", "o/1", "o/0 o/1", "p/0", "o/0 o/1 p/0", "nope/0")
ISOLATION = ("", "isolation=uncommitted")

REQUESTS: Mapping[str, tuple[int, Asks]] = {
    "txn-init": (
        10,
        (
            ("",) * 6 + tuple(f"v={v}" for v in range(5)),
            ("",) * 8 + ("tv=1", "tv=2"),
            ("",) * 10 + (f"timeout={SHORT_MS}",) * 3 + ("timeout=0", "timeout=900001"),
            ("", "own=yes", "own=yes", "own=yes epoch=-1", "own=yes epoch=+1", "producer=ghost epoch=0"),
            LOST,
        ),
    ),
    "txn-add-partitions": (12, (("",) * 4 + tuple(f"v={v}" for v in range(6)), WRONG_PRODUCER, PARTITIONS)),
    "txn-add-offsets": (6, (("",) * 4 + tuple(f"v={v}" for v in range(4)), WRONG_PRODUCER, GROUPS)),
    "txn-commit-offsets": (
        10,
        (("",) * 8 + tuple(f"v={v}" for v in (0, 2, 3, 4, 5)), WRONG_PRODUCER, GROUPS, MEMBERS, OFFSETS),
    ),
    "txn-end": (
        14,
        (
            ("commit", "commit", "abort"),
            ("",) * 8 + tuple(f"v={v}" for v in range(6)),
            WRONG_PRODUCER,
            LOST,
        ),
    ),
    "produce": (
        18,
        (
            ("",) * 10 + tuple(f"v={v}" for v in (3, 7, 9, 11, 12, 13, 13)),
            WRONG_PRODUCER,
            ("",) * 16 + ("seq=0", "seq=0", "seq=1", "seq=5", "seq=2147483647"),
            LOST,
            RECORDS,
        ),
    ),
    "produce txn=no": (2, (("", "", "v=11", "epoch=-1"), RECORDS)),
    "produce plain=yes": (2, (("", "v=7"), RECORDS)),
    "read": (
        7,
        (
            ("",) * 4 + ("v=4", "v=7", "v=11", "v=13", "v=17"),
            ISOLATION,
            ("",) * 6 + ("from=1", "from=3", "from=6"),
            READ,
        ),
    ),
    "list-offsets": (3, (ISOLATION, ("", "", "at=earliest", "at=max"), READ)),
    "txn-describe": (3, (("tx", "ty", "tx ty", "unknown tx"),)),
    "txn-list": (
        2,
        (
            (
                "",
                "v=0 ",
                "states=Ongoing",
                "states=CompleteCommit,CompleteAbort,Empty",
                "pattern=ty.*",
                "producers=ghost",
            ),
        ),
    ),
    "describe-producers": (4, (READ,)),
    "fetch": (
        5,
        (("", "stable=yes", "stable=yes", "v=7 stable=yes", "groups=g,h stable=yes"), ("all", "t1/0 t1/1 t2/0")),
    ),
    "commit": (3, (("generation=-1 member=none", "generation=-1 member=none group=h"), OFFSETS)),
    "delete": (1, (("h", "g"),)),
    "offset-delete": (1, (("", "group=h"), ("t1/0", "t1/0 t1/1 t2/0"))),
    "write-markers": (1, (("abort", "commit"), ("", "", "v=2 tv=1", "v=2"), ("o/0", "p/0", "nope/0 o/1"))),
    "list": (1, (("",),)),
    "restart": (3, ()),
    "drop": (1, ()),
}
"""Request -> (how often, its arguments)."""

OLDER_THAN_IDENTITY = ("v=0", "v=1", "v=2")
"""Versions of InitProducerId without the producer's present id."""
BATCHED = ("v=4", "v=5")


def history(seed: int, broker: Mapping[str, str]) -> Story:
    """The history of that seed, for a server with those settings: a story without outcomes."""
    dice = random.Random(seed)
    producers = "PQR"[: dice.choice((1, 2, 2, 2, 3, 3, 3))]
    settings = " ".join(f"{name}={value}" for name, value in broker.items())
    lines = [f"# random history {seed} of transactions", f"broker {settings}", TOPICS, OWN_TOPICS, "tags txn"]
    lines += ["A: enter instance=i-a session=60000 rebalance=60000", "A: sync assign={A}:x"] * (dice.random() < 0.5)
    for one in producers if dice.random() < 0.6 else producers[:1]:
        timeout = f" timeout={SHORT_MS}" if dice.random() < 0.15 else ""
        lines.append(f"{one}: txn-init {IDS[one]} tv={dice.choice((1, 2))}{timeout}")
    requests, weights = list(REQUESTS), [often for often, _ in REQUESTS.values()]
    for _ in range(dice.randint(15, 45)):
        luck = dice.random()
        if luck < 0.16:
            lines += _transaction(dice, producers)
        elif luck < 0.19:
            lines.append(f"advance {dice.choice((200, 500, 900))}")
        elif luck < 0.2:
            lines += dice.choice((["C: delete-topic p"], ["C: delete-topic p", "C: create-topic p:1"]))
        else:
            lines.append(_step(dice, producers, dice.choices(requests, weights)[0]))
    return Story(f"random-{seed}", "\n".join([*lines, *END]) + "\n")


END = (
    "C: txn-describe tx ty",
    "C: txn-list",
    "C: describe-producers o/0 o/1 p/0",
    "C: read o/0 o/1 p/0",
    "C: read isolation=uncommitted o/0 o/1 p/0",
    "C: list-offsets o/0 o/1 p/0",
    "C: fetch groups=g,h all",
    "C: fetch stable=yes groups=g,h t1/0 t1/1 t1/2 t2/0",
    "C: list",
)
"""The requests that show everything at the end."""


def _transaction(dice: random.Random, producers: str) -> list[str]:
    """A transaction as an application has it, by the client's own versions."""
    one = dice.choice(producers)
    lines = []
    if dice.random() < 0.7:
        records = dice.choice(RECORDS[:6])
        added = [record.partition("=")[0] for record in records.split()]
        lines += [f"{one}: txn-add-partitions {' '.join(added)}", f"{one}: produce {records}"]
    if dice.random() < 0.6:
        group = dice.choice(("", " group=h"))
        lines += [f"{one}: txn-add-offsets{group}", f"{one}: txn-commit-offsets{group} {dice.choice(OFFSETS[:4])}"]
    if dice.random() < 0.2:
        lines.append(f"{dice.choice(producers)}: produce {dice.choice(RECORDS[:6])}")
    if dice.random() < 0.8:
        lost = " unheard=yes" if dice.random() < 0.1 else ""
        lines.append(f"{one}: txn-end {dice.choice(('commit', 'commit', 'abort'))}{lost}")
    return lines


def _step(dice: random.Random, producers: str, request: str) -> str:
    one = dice.choice(producers)
    words = [dice.choice(some) for some in REQUESTS[request][1]]
    if request == "txn-init":
        version, _, _, identity, _ = words
        if version in OLDER_THAN_IDENTITY and identity:
            words[3] = ""
        words.insert(0, IDS[one])
    if request == "txn-add-partitions" and words[0] in BATCHED:
        if dice.random() < 0.4:
            words[0] += " verify=yes"
        elif dice.random() < 0.3 and len(producers) == 3 and not words[1].startswith("id="):  # an id counts once there
            other = "R" if one != "R" else "P"
            words[2] += f" {other}:{dice.choice(PARTITIONS[:4])}"
    if request == "txn-commit-offsets" and words[0] in ("v=0", "v=2"):
        words[3] = ""
    if request.startswith("produce") and "id=none" in words:
        words[words.index("id=none")] = ""
    if request in ("read", "list-offsets", "describe-producers", "fetch", "txn-list", "txn-describe", "list"):
        one = "C"
    if request in ("commit", "delete", "offset-delete"):
        one = "D"
    return f"{one}: {' '.join(word for word in (request, *words) if word)}"
