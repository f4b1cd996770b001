"""Random histories of consumer groups (KIP-848), with members of the classic protocol in the same groups, and of groups
that change their protocol. One seed, one history.

As with the histories of classic groups, nothing is known of what will be answered. After each step the groups are
described. Of the topics two are of all histories; those of the history alone come and go. Dynamic members join by the
versions that first ask for an id: else Kafka draws an id that is answered only at the end of the join phase, and the
order of ids decides who gets what.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from muster.conform.player.story import Story

TOPICS = "topics t1=3 t2=1"
OWN_TOPICS = "own-topics u=2 w=1"
LETTERS = "ABCDEF"
WATCHER = "Z"

Words = tuple[str, ...]
Asks = tuple[Words, ...]
"""The arguments of a request: one of each tuple is taken."""

NAMES = ("t1", "t1", "t1,t2", "t1,t2", "t2", "t2,t1", "t1,nope", "none", "t1,t1")
OWN_NAMES = ("u", "t1,u", "u,w", "t2,w", "w,nope,u")
PATTERNS = ("[uw]~", "u~", "u~|w~", "(", "u(?=x)", "*", "t1", "t[12]", "nothing", "[[:alpha:]]~", "u[0-9]*~")
REBALANCES = ("30000", "30000", "30000", "900", "600")
SESSIONS = ("30000", "30000", "30000", "2000", "1000")
PROTOCOLS = ("range", "range", "range,roundrobin", "roundrobin,range", "sticky,range", "cooperative-sticky,range")
ADVANCES = (200, 500, 900, 1300)
OF_TOPICS = ("delete-topic w", "create-topic w:2", "grow-topic u:4", "grow-topic u:3", "delete-topic u")

WRONG_MEMBER = ("",) * 16 + ("member=id:ghost", "member={A}", "member={B}", "member={C}", "member=none")
WRONG_INSTANCE = ("",) * 18 + ("instance=i-a", "instance=i-x", "instance=i-b")
OTHER_GROUP = ("",) * 40 + ("group=h",)
NO_GROUP = (*OTHER_GROUP, "group=none")
EPOCHS = (
    *("",) * 22,
    "epoch=epoch+1",
    "epoch=epoch-1",
    "epoch=epoch-1",
    "epoch=0",
    "epoch=0",
    "epoch=-1",
    "epoch=-2",
    "epoch=-3",
    "epoch=1",
)
OWNED = (
    *("owned=mine",) * 10,
    *("",) * 3,
    "owned=mine-1",
    "owned=none",
    "owned=t1/0",
    "owned=mine,t2/0",
    "owned=t1/0+1+2,t2/0",
    "owned=nope/0",
    "owned=t1/7",
    "owned=t1/0+0",
)
GENERATIONS = ("",) * 10 + ("generation=+1", "generation=-1", "generation=epoch-1", "generation=0", "generation=-2")
OFFSETS = (
    "t1/0=1",
    "t1/1=2 t2/0=3",
    "t1/2=4:note",
    "t2/0=5@3:null",
    "t1/0=6 nope/0=1",
    "t1/9=1",
    "t1/0=7 t1/1=8 t1/2=9",
)
PARTITIONS = ("t1/0", "t1/0 t1/1 t1/2 t2/0", "t2/0 t1/1", "t1/7 nope/0", "t1/0 t1/0")

REQUESTS: Mapping[str, tuple[int, Asks]] = {
    "consumer-heartbeat": (
        40,
        (
            ("",) * 12 + ("v=0",) * 3,
            EPOCHS,
            OWNED,
            ("",) * 8 + ("topics", "topics", "topics", "regex", "topics regex"),
            ("",) * 12 + ("assignor=range", "assignor=uniform", "assignor=range", "assignor=nobody"),
            ("",) * 9 + ("rebalance", "rebalance", "rebalance=-1", "rebalance=-2", "rebalance=0"),
            ("",) * 24 + ("rack=r1", "rack=r2"),
            WRONG_MEMBER,
            WRONG_INSTANCE,
            NO_GROUP,
        ),
    ),
    "come": (10, ()),
    "join": (
        12,
        (
            ("",) * 9 + ("v=4", "v=5", "v=6", "v=7", "v=8"),
            ("",) * 6 + ("protocols",),
            ("", "owned=mine", "owned=mine", "owned=mine-1", "owned=none"),
            ("",) * 6 + ("topics", "topics", "session", "rebalance"),
            ("",) * 30 + ("type=connect", "session=50", "protocols=none"),
            WRONG_MEMBER[:-1],
            WRONG_INSTANCE,
            NO_GROUP,
        ),
    ),
    "sync": (
        12,
        (
            ("",) * 9 + tuple(f"v={v}" for v in range(5)),
            ("",) * 18 + ("protocol=roundrobin", "type=connect", "protocol=null", "assign={A}:x"),
            WRONG_MEMBER,
            GENERATIONS,
            WRONG_INSTANCE,
            OTHER_GROUP,
        ),
    ),
    "heartbeat": (
        12,
        (("",) * 6 + tuple(f"v={v}" for v in range(4)), WRONG_MEMBER, GENERATIONS, WRONG_INSTANCE, OTHER_GROUP),
    ),
    "leave": (
        5,
        (
            ("",) * 4
            + ("v=0", "v=2", "v=3", "{B}", "{C} {B}", "{A} {A}", "none(i-a) none(i-b)", "{B}(i-b)", "{B}(i-a)")
            + ("{A}(i-x)", "id:ghost", "nobody=yes", "none"),
            OTHER_GROUP,
        ),
    ),
    "commit": (
        9,
        (
            ("",) * 5 + tuple(f"v={v}" for v in range(2, 11)),
            ("generation=epoch",) * 6
            + ("", "", "generation=epoch-1", "generation=epoch-1", "generation=epoch+1")
            + ("generation=-1 member=none", "generation=-1", "generation=-2", "generation=0"),
            WRONG_MEMBER,
            WRONG_INSTANCE,
            OTHER_GROUP,
            OFFSETS,
        ),
    ),
    "fetch": (
        6,
        (
            ("",) * 3 + ("v=2", "v=7", "v=8", "v=10", "stable=yes"),
            (
                "",
                "",
                "member={A} epoch=epoch",
                "member={B} epoch=epoch",
                "member={A} epoch=epoch-1",
                "member=id:ghost epoch=1",
                "member=none epoch=1",
                "epoch=0",
            ),
            ("all", "all", *PARTITIONS),
        ),
    ),
    "describe": (4, (("",) * 4 + tuple(f"v={v}" for v in range(6)) + ("operations=yes",), ("", "", "g h"))),
    "consumer-describe": (2, (("", "v=0"), ("", "g h nobody", "h"))),
    "list": (3, (("", "", "types=Consumer", "types=classic states=Empty", "states=Assigning,Reconciling,Stable"),)),
    "offset-delete": (3, (NO_GROUP, PARTITIONS)),
    "delete": (2, (("", "v=1"), ("", "", "g h", "nobody"))),
    "txn-init": (3, (("tx", "tx", "ty"),)),
    "txn-add-offsets": (3, (OTHER_GROUP,)),
    "txn-commit-offsets": (
        6,
        (
            ("", "v=3", "v=5", "v=5", "v=5"),
            ("member={A}", "member={B}", "member={C}", "", "member=id:ghost"),
            ("generation=epoch",) * 4 + ("generation=epoch-1", "generation=epoch+1", "generation=1", ""),
            WRONG_INSTANCE,
            OFFSETS[:6],
        ),
    ),
    "txn-end": (4, (("commit", "commit", "abort"),)),
    "restart": (4, ()),
    "drop": (1, ()),
}
"""Request -> (how often, its arguments)."""
OF_GROUPS_WITHOUT_MEMBERS = ("v=2", "v=7", "v=8")
"""Versions of OffsetFetch without a member."""


def history(seed: int, broker: Mapping[str, str]) -> Story:
    """The history of that seed, for a server with those settings: a story without outcomes."""
    return _Writing(seed, broker).story()


class _Writing:
    """One history while it is being written."""

    def __init__(self, seed: int, broker: Mapping[str, str]) -> None:
        self.dice = random.Random(seed)
        self.seed = seed
        self.actors = LETTERS[: self.dice.choice((1, 2, 2, 3, 3, 3, 3, 4, 4, 5))]
        self.has_own = self.dice.random() < 0.45
        self.natives = self.dice.choice((0.5, 0.5, 0.8, 1.0))
        """The share of joining members that use the new protocol."""
        settings = " ".join(f"{name}={value}" for name, value in broker.items())
        self.lines = [f"# random history {seed} of consumer groups", f"broker {settings}", TOPICS]
        self.lines += [OWN_TOPICS] * self.has_own

    def story(self) -> Story:
        dice = self.dice
        for actor in self.actors if dice.random() < 0.85 else self.actors[:1]:
            self.come(actor)
        requests, weights = list(REQUESTS), [often for often, _ in REQUESTS.values()]
        for _ in range(dice.randint(14, 34)):
            luck = dice.random()
            if luck < 0.24:
                self.round()
            elif luck < 0.29:
                self.say(f"advance {dice.choice(ADVANCES)}")
            elif luck < 0.33 and self.has_own:
                self.say(f"{WATCHER}: {dice.choice(OF_TOPICS)}")
            else:
                self.step(dice.choice(self.actors), dice.choices(requests, weights)[0])
        self.say(f"{WATCHER}: fetch groups=g,h all")
        self.say(f"{WATCHER}: describe g h")
        return Story(f"random-{self.seed}", "\n".join(self.lines) + "\n")

    def say(self, line: str) -> None:
        """Add one step, and the description of the group after it."""
        self.lines += [line, f"{WATCHER}: consumer-describe"]

    def names(self) -> str:
        """Topics of a subscription."""
        return self.dice.choice(NAMES + OWN_NAMES * 2 if self.has_own else NAMES)

    def come(self, actor: str) -> None:
        """A process starts, with one of the protocols."""
        dice = self.dice
        instance = f"instance=i-{actor.lower()}" if dice.random() < 0.3 else ""
        if dice.random() < self.natives:
            pattern = dice.random() < (0.3 if self.has_own else 0.06)
            words = [
                "epoch=0",
                "owned=none",
                f"rebalance={dice.choice(REBALANCES)}",
                f"topics={self.names()}" if not pattern or dice.random() < 0.2 else "",
                f"regex={dice.choice(PATTERNS)}" if pattern else "",
                dice.choice(("", "", "", "assignor=range", "assignor=uniform")),
                instance,
                "" if pattern else dice.choice(("",) * 6 + ("v=0 member=none",)),
            ]
            self.say(f"{actor}: consumer-heartbeat {_joined(words)}")
            return
        names = self.names().replace("t1,t1", "t1")
        words = [
            f"topics={'t1' if names == 'none' else names}",
            f"protocols={dice.choice(PROTOCOLS)}" if dice.random() < 0.6 else "",
            f"session={dice.choice(SESSIONS)}",
            f"rebalance={dice.choice(REBALANCES)}",
            instance,
        ]
        self.say(f"{actor}: enter {_joined(words)}")
        if dice.random() < 0.7:
            self.say(f"{actor}: sync{self.shares() if dice.random() < 0.7 else ''}")

    def shares(self) -> str:
        """Assignments that a leader sends."""
        one, other = self.dice.choice(self.actors), self.dice.choice(self.actors)
        return f" assign={{{one}}}:given(t1/0+1;t2/0)" + (f",{{{other}}}:given(t1/2)" if other != one else "")

    def round(self) -> None:
        """Some members act as clients do, as each of the two protocols needs."""
        for actor in self.dice.sample(self.actors, self.dice.randint(1, len(self.actors))):
            if self.dice.random() < self.natives:
                self.say(f"{actor}: consumer-heartbeat owned=mine")
            elif self.dice.random() < 0.5:
                self.say(f"{actor}: heartbeat")
            else:
                self.say(f"{actor}: join owned=mine")
                self.say(f"{actor}: sync{self.shares() if self.dice.random() < 0.5 else ''}")

    def step(self, actor: str, request: str) -> None:
        """Add one request of any kind."""
        dice = self.dice
        if request == "come":
            self.lines.append(f"{actor}: restart")
            self.come(actor)
            return
        words = [word for one in REQUESTS[request][1] for word in dice.choice(one).split()]
        if request == "consumer-heartbeat":
            words = self.native(words)
        if request == "fetch":
            words = _asking(words)
        words = [self.filled(word) for word in words]
        kept = [word for i, word in enumerate(words) if not _again(word, words[i + 1 :])]
        line = f"{actor}: {request} {' '.join(kept)}".strip()
        if request in ("restart", "drop"):
            self.lines.append(line)
        else:
            self.say(line)
        wrong = {"session=50": "session=30000", "type=connect": "type=consumer", "protocols=none": "protocols=range"}
        mended = [right for word, right in wrong.items() if word in kept and request == "join"]
        if mended:
            self.say(f"{actor}: join {' '.join(mended)}")

    def native(self, words: list[str]) -> list[str]:
        """A heartbeat of epoch 0 mostly has all fields; version 0 has no patterns, and the coordinator draws the id."""
        if "epoch=0" in words and self.dice.random() < 0.8:
            words = [word for word in words if not word.startswith(("owned=", "rebalance"))]
            words += ["owned=none", "rebalance", "topics"]
        if "v=0" in words:
            words = [word for word in words if word != "regex"]
            if "epoch=0" in words and self.dice.random() < 0.6:
                words.append("member=none")
        return words

    def filled(self, word: str) -> str:
        """A word that only names an argument gets its value."""
        values: Mapping[str, Words] = {
            "rebalance": REBALANCES,
            "session": SESSIONS,
            "protocols": PROTOCOLS,
            "regex": PATTERNS,
        }
        if word == "topics":
            return f"topics={self.names()}"
        return f"{word}={self.dice.choice(values[word])}" if word in values else word


def _asking(words: list[str]) -> list[str]:
    """A valid OffsetFetch: only newer versions name a member, and an epoch needs a member."""
    if any(word in words for word in OF_GROUPS_WITHOUT_MEMBERS):
        words = [word for word in words if not word.startswith(("member=", "epoch=", "stable="))]
    if not any(word.startswith("member=") for word in words):
        words = [word for word in words if not word.startswith("epoch=")]
    return words


def _again(word: str, later: list[str]) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and "/" not in name and any(other.startswith(f"{name}=") for other in later)


def _joined(words: list[str]) -> str:
    return " ".join(word for word in words if word)
