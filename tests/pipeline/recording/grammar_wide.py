"""Draws recordings, also those from WIDE_FROM on.

From there on, one of three brokers is away, and logs begin in mid-life. Members commit in transactions, and have names
as of Kafka Connect and Streams. Each client library plays in each happening.
"""

from __future__ import annotations

import random
from typing import Any, Final

from tests.pipeline.recording import grammar, scripts, scripts_drawn, scripts_wide
from tests.pipeline.recording.begins import CUT
from tests.pipeline.recording.brokers import COMPACTED
from tests.pipeline.recording.cast import GO, KAFKAJS, PROGRAMS
from tests.pipeline.recording.grammar import APPLICATIONS, EVENTS, LOOKS, SKIPS, SLOW, STALLS, Cast
from tests.pipeline.recording.scripts import Part

WIDE_FROM: Final = 220
KAFKAJS_FROM: Final = 222
KAFKAJS_SHARE: Final = 0.4
"""This share of the groups that all libraries can play has members of KafkaJS."""
ANY: Final = ("aiokafka", "franz-go", "sarama", "java", "confluent", "kafka-python")
THREADED: Final = tuple(client for client in ANY if client != "aiokafka")
"""Libraries that send heartbeats while the application does not poll."""
_WRITERS: Final = ("java", "confluent")
"""Libraries whose members may commit in transactions, or with KIP-848."""
_SEEKS: Final = tuple(client for client in ANY if client != "sarama")
_CLIENTS: Final = {
    "poison": ANY, "blocked": ANY, "poison-skip": ANY, "stuck-deploy": ANY, "poison-kills": ANY, "all-hang": THREADED,
    "hang-restart": THREADED, "lost-hangs": THREADED, "skips-ahead": _SEEKS, "one-skips": _SEEKS,
    "restarted-away": ANY, "lost-away": ANY, "slows-down": tuple(client for client in ANY if client not in GO),
}  # fmt: skip
"""The libraries that can play a script, if not all can: others have no seeks, or no change of their rate."""
_HAND: Final = {"commits": "hand", "commit_ms": (1_000, 2_000, 4_000)}
_SHORT: Final = {"session_ms": (6_000, 10_000)}
_NAMES: Final = ("numbers", "numbers", "pods", "streams", "connect")
TWO_AT_ONCE: Final = (
    Part("slow-crashes", scripts_wide.slow_and_crashing, {**_SHORT, "partitions": (6,)}),
    Part("new-owner", scripts_wide.new_owner, {"protocol": "classic"}),
    Part("stuck-deployed", scripts_wide.stuck_and_deployed, _HAND),
    Part("slow-release", scripts_wide.slow_release),
    Part("stray", scripts_wide.stray, {"names": "pods"}),
)
USUAL: Final = (
    Part("connect-tasks", scripts_drawn.whole_restart, {"names": "connect"}),
    Part("stream-threads", scripts.deaths, {**_SHORT, "names": "streams"}),
    Part("by-the-minute", scripts_wide.jobs_by_the_minute),
    Part("pod-deploy", scripts_drawn.deploy, {"names": "pods"}),
)
DECKS: Final = (
    (STALLS, 2), (SLOW, 1), (SKIPS, 1), (APPLICATIONS, 1), (LOOKS, 1), (EVENTS, 1), (TWO_AT_ONCE, 2), (USUAL, 1),
)  # fmt: skip
"""The happenings of each kind, and how many of them a recording has."""
TROUBLES: Final = (
    ("away-broker", None), ("away", COMPACTED), ("lost-broker", None), ("node", CUT), ("rolling-brokers", None),
    ("away-short", COMPACTED),
)  # fmt: skip
"""The trouble of a recording, and how its log begins."""
TRANSACTIONS_SHARE: Final = 0.25
"""This share of the groups commits in transactions, if the script allows it."""


def cast(seed: int) -> Cast:
    """The recording with this number."""
    if seed < WIDE_FROM:
        return grammar.cast(seed)
    chance = random.Random(f"wide:{seed}")
    parts = [grammar.ALWAYS[0]]
    for number, (all_of_it, count) in enumerate(DECKS):
        deck = list(all_of_it)
        first = (seed - WIDE_FROM) * count
        random.Random(f"wide:{number}:{first // len(deck)}").shuffle(deck)
        parts += [deck[(first + place) % len(deck)] for place in range(count)]
    trouble, begins = TROUBLES[(seed - WIDE_FROM) % len(TROUBLES)]
    after_s = chance.uniform(60, 90) if begins is None else chance.uniform(95, 120)
    some = [_with_settings(part, chance) for part in parts]
    if seed >= KAFKAJS_FROM:
        some = [_with_kafkajs(part, random.Random(f"{KAFKAJS}:{seed}:{part.name}")) for part in some]
    return Cast(tuple(some), trouble, after_s, begins)


def _with_kafkajs(part: Part, chance: random.Random) -> Part:
    """KafkaJS only assigns in turn, and all topics to all members. It knows neither static members nor KIP-848."""
    options = part.options
    is_able = options.get("client") == ANY and options.get("protocol") != "consumer" and not options.get("static")
    if not is_able or part.name == "two-topics" or "second_topic" in options or chance.random() >= KAFKAJS_SHARE:
        return part
    return Part(part.name, part.play, {**options, "client": KAFKAJS, "assignor": "roundrobin", "protocol": "classic"})


def _with_settings(part: Part, chance: random.Random) -> Part:
    options = dict(part.options)
    if part.name in _CLIENTS or "client" not in options:
        options["client"] = _CLIENTS.get(part.name, ANY)
    is_able = not options.get("same_name") and isinstance(options["client"], tuple)
    roll = chance.random()
    if is_able and roll < TRANSACTIONS_SHARE:
        options |= {"client": _WRITERS, "commits": "transactions"}
        options.setdefault("commit_ms", (500, 1_000, 4_000))
    if is_able and TRANSACTIONS_SHARE / 2 < roll < TRANSACTIONS_SHARE * 2 and "protocol" not in options:
        options |= {"client": _WRITERS, "protocol": "consumer"}
    if is_able:
        options.setdefault("names", chance.choice(_NAMES))
    return Part(part.name, part.play, options)


def programs_of(scene: Cast) -> list[str]:
    """The libraries in Go or JavaScript by which a member may play in a recording."""
    wanted: list[Any] = [part.options.get("client", ()) for part in scene.parts]
    return [client for client in PROGRAMS if any(client == one or client in one for one in wanted)]
