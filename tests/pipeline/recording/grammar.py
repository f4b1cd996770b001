"""Draws the groups of a recording at random: happening × client × assignor × settings × load, and the broker's trouble
that overlaps them. `record --cast drawn` plays it.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from tests.pipeline.recording import scripts, scripts_epochs, scripts_harm, scripts_rare, scripts_seems, scripts_still
from tests.pipeline.recording import scripts_drawn as drawn
from tests.pipeline.recording.scripts import Part

_SHORT: Final = {"session_ms": (6_000, 10_000)}
_HAND: Final = {"commits": "hand", "commit_ms": (1_000, 2_000, 4_000)}
_POLLS: Final = {"max_poll_ms": 8_000, "session_ms": 6_000}

ALWAYS: Final = (
    Part("calm", drawn.calm),
    Part("sawtooth", drawn.calm, {"commit_ms": (15_000, 25_000)}),
    Part("crashes", drawn.crashes, _SHORT),
)
SOMETIMES: Final = (
    Part("deploy", drawn.deploy),
    Part("static-deploy", drawn.deploy, {"static": True, "session_ms": 15_000}),
    Part("lost", drawn.lost, _SHORT),
    Part("freezes", drawn.freezes, _SHORT),
    Part("slow-polls", drawn.slow_polls, {**_POLLS, "client": ("java", "confluent", "kafka-python")}),
    Part("too-slow", drawn.too_slow),
    Part("one-too-slow", drawn.one_too_slow),
    Part("burst", drawn.burst),
    Part("poison", drawn.poison, _HAND),
    Part("blocked", drawn.blocked, _HAND),
    Part("skips", drawn.skips, {**_HAND, "session_ms": (10_000, 45_000)}),
    Part("reset-to-end", drawn.reset_to_end),
    Part("two-topics", drawn.two_topics),
    Part("stopped", drawn.stopped),
    Part("removed", drawn.removed),
    Part("flapping", scripts.flapping),
    Part("overlap", scripts.overlap),
    Part("scaling", scripts.scaling),
)
MORE: Final = (
    Part("all-crash", drawn.all_crash, _SHORT),
    Part("alone", drawn.alone, _SHORT),
    Part("pods", drawn.pods),
    Part("skips-ahead", drawn.skips_ahead, {**_HAND, "client": ("java", "confluent", "kafka-python", "franz-go")}),
    Part("catches-up", drawn.catches_up),
    Part("whole-restart", drawn.whole_restart),
    Part("goes-quiet", drawn.goes_quiet),
)
"""Happenings that only recordings from FRANZ_FROM on have."""
_THREADED: Final = ("java", "confluent", "kafka-python", "franz-go", "sarama")
"""Libraries that send heartbeats while the application does not poll."""
LATEST: Final = (
    Part("writes-late", scripts_still.writes_late),
    Part("hangs", scripts_still.hangs, {"client": _THREADED}),
    Part("one-quiet", scripts_still.one_quiet),
    Part("rescheduled", scripts_still.rescheduled, _SHORT),
    Part("goes-silent", scripts_still.goes_silent),
    Part("twice", scripts.two_applications, {"client": "confluent", "commits": "hand", "protocol": "classic"}),
    Part("grows", scripts_still.grows, {"metadata_ms": 10_000}),
    Part("rewinds", scripts.rewinder, {"commits": "hand", "client": ("java", "confluent", "kafka-python", "aiokafka")}),
)
"""Happenings that only recordings from LATEST_FROM on have."""
_BOTH: Final = {"protocol": "classic", "client": ("java", "confluent"), "session_ms": 10_000, "metadata_ms": 4_000}
_CLASSIC: Final = {"protocol": "classic"}
RARE: Final = (
    Part("upgraded", scripts_epochs.upgraded, _BOTH),
    Part("made-again", scripts_rare.made_again),
    Part(
        "same-instance",
        scripts_rare.same_instance,
        {**_CLASSIC, "static": True, "session_ms": 15_000, "client": ("java", "confluent", "kafka-python")},
    ),
    Part("pattern", scripts_epochs.patterned, {"client": ("java", "confluent"), "metadata_ms": 4_000}),
    Part("slow-deploy", scripts_rare.slow_deploy),
    Part("deaths", scripts.deaths, _SHORT),
    Part("recreated", scripts_rare.recreated),
    Part("lost-hangs", scripts_rare.lost_and_hangs, {**_SHORT, "client": _THREADED}),
    Part("mixed", scripts_epochs.mixed, _BOTH),
    Part("autoscaled", scripts_rare.autoscaled),
    Part("shared", scripts_rare.shared, {**_CLASSIC, "client": "sharing", "session_ms": 45_000}),
    Part("blue-green", scripts_rare.blue_green),
    Part("given-up", scripts.given_up, {"client": ("java", "confluent", "kafka-python", "aiokafka")}),
    Part("deploy-kill", scripts_rare.deploy_with_a_kill, _SHORT),
    Part("resets", scripts.reset),
    Part("poison-scaling", scripts_rare.poison_and_scaling, {**_HAND, "client": ("java", "confluent", "kafka-python")}),
    Part("static-deaths", scripts.static_deaths, {**_CLASSIC, "static": True, "session_ms": 15_000}),
    Part("expired", scripts_epochs.expired),
    Part(
        "cooperative",
        scripts.rolling,
        {**_CLASSIC, "assignor": "cooperative-sticky", "client": ("java", "confluent", "kafka-python")},
    ),
    Part("written", scripts_epochs.written_to, {"commits": "hand", "client": ("java", "confluent")}),
    Part("jobs", scripts_rare.waits_between_jobs),
    Part("static-away", scripts_epochs.static_away, {"protocol": "consumer", "static": True, "session_ms": 15_000}),
    Part("slow-polls", drawn.slow_polls, {**_POLLS, "client": ("java", "confluent", "kafka-python")}),
    Part("stopped", drawn.stopped),
)
"""Happenings of the recordings from RARE_FROM on. These have nothing else but a calm group."""
_SEEKS: Final = {**_HAND, "client": ("java", "confluent", "kafka-python", "franz-go")}
_READS: Final = {"client": ("java", "confluent", "kafka-python")}
_TURNS: Final = {"batch_s": (0.5, 5.0, 15.0)}
"""How long a member works on what it reads at once: with much at once, it reads partitions in turn."""
_SECOND: Final = {"second_topic": True}
_AIO: Final = {**_CLASSIC, **_SHORT, "client": "aiokafka"}
_MEANWHILE: Final = {**_SHORT, "client": ("java", "confluent", "kafka-python", "aiokafka")}
STALLS: Final = (
    Part("poison", drawn.poison, _HAND),
    Part("all-hang", scripts_harm.all_hang, {"client": _THREADED}),
    Part("poison-kills", scripts_harm.poison_kills, {**_CLASSIC, **_HAND, **_SHORT, "client": ("java", "franz-go")}),
    Part("stuck-deploy", scripts_harm.stuck_after_deploy, _SEEKS),
    Part("blocked", drawn.blocked, _HAND),
    Part("hang-restart", scripts_harm.hang_and_restart, {**_SHORT, "client": _THREADED}),
    Part("poison-skip", scripts_harm.poison_and_skip, {**_HAND, "client": ("java", "confluent", "aiokafka")}),
    Part("lost-hangs", scripts_rare.lost_and_hangs, {**_SHORT, "client": _THREADED}),
)
"""From here on: the happenings of the recordings from TRUE_FROM on."""
SLOW: Final = (
    Part("too-slow", drawn.too_slow, _TURNS),
    Part("slows-down", scripts_harm.slows_down, _READS),
    Part("load-grows", scripts_harm.load_grows, _TURNS),
    Part("one-too-slow", drawn.one_too_slow, _TURNS),
    Part("hot", scripts_harm.hot_partition, _TURNS),
    Part("slow-loses", scripts_harm.slow_without_one, {**_SHORT, "partitions": (6,)}),
    Part("slow-name", drawn.too_slow, {**_TURNS, "same_name": True}),
    Part("slow-deploy", scripts_rare.slow_deploy, _TURNS),
)
SKIPS: Final = (
    Part("skips-ahead", drawn.skips_ahead, _SEEKS),
    Part("reset-latest", scripts_harm.reset_to_latest),
    Part("one-skips", scripts_harm.one_skips_ahead, _SEEKS),
    Part("reset-to-end", drawn.reset_to_end),
    Part("reset-one", scripts_harm.reset_of_one),
)
APPLICATIONS: Final = (
    Part("two-topics", drawn.two_topics),
    Part("more-topics", scripts_seems.release_with_more_topics, _SECOND),
    Part("second-later", scripts_seems.second_topic_later, _SECOND),
    Part("twice", scripts.two_applications, {"client": "confluent", "commits": "hand", "protocol": "classic"}),
    Part("second-crashes", scripts_seems.second_topic_crashes, {**_SHORT, **_SECOND}),
    Part("other-topic", scripts_seems.release_with_another_topic, _SECOND),
)
LOOKS: Final = (
    Part("few-records", scripts_seems.few_records),
    Part("checkpoints", drawn.calm, {"commit_ms": (30_000, 45_000, 60_000)}),
    Part("pauses", scripts_seems.pauses, {"session_ms": 45_000}),
    Part("second-few", scripts_seems.a_second_topic_with_few, _SECOND),
    Part("too-many", scripts_seems.too_many, {"partitions": (3,), "assignor": ("range", "roundrobin")}),
    Part("to-zero", scripts_seems.to_zero),
    Part("one-quiet", scripts_still.one_quiet),
    Part("writes-late", scripts_still.writes_late),
)
EVENTS: Final = (
    Part("restarted-away", scripts_seems.restarted_meanwhile, _MEANWHILE),
    Part("aio-crashes", drawn.crashes, _AIO),
    Part("name-deploy", drawn.deploy, {"same_name": True}),
    Part("lost-away", scripts_seems.lost_meanwhile, _MEANWHILE),
    Part("hard-deploy", scripts_seems.hard_deploy, _SHORT),
    Part("freezes", drawn.freezes, _SHORT),
    Part("scaling", scripts.scaling),
    Part("aio-alone", drawn.alone, _AIO),
    Part("removed", drawn.removed),
    Part("pods", drawn.pods),
    Part("name-scaling", scripts.scaling, {"same_name": True}),
    Part("static-deploy", drawn.deploy, {"static": True, "session_ms": 15_000}),
)
TRUE_DECKS: Final = ((STALLS, 2), (SLOW, 2), (SKIPS, 2), (APPLICATIONS, 1), (LOOKS, 1), (EVENTS, 2))
"""The happenings of each kind, and how many of them a recording has."""
TRUE_FROM: Final = 200
TRUE_TROUBLES: Final = ("away", "away", "node", "away-late", "node", "away-frozen", "away-late", "away-short")
UNTOUCHED: Final = (
    drawn.calm, drawn.too_slow, drawn.one_too_slow, scripts_harm.load_grows, scripts_seems.few_records,
    scripts_seems.a_second_topic_with_few, scripts_seems.too_many, scripts_still.one_quiet, scripts_still.writes_late,
)  # fmt: skip
"""Scripts that leave their members alone: a lost node may take one."""
RARE_FROM: Final = 120
EACH_RARE: Final = 8
RARE_TROUBLES: Final = ("away-twice", "none", "away-early", "restarts", "away-frozen", "hosts")
FRANZ_FROM: Final = 41
"""From this seed on, members of franz-go play too, and the deck has MORE."""
LATEST_FROM: Final = 67
"""From this seed on, members of Sarama play too, and each recording has EACH_LATEST of LATEST."""
EACH_LATEST: Final = 3
FRANZ: Final = "franz-go"
SARAMA: Final = "sarama"
SARAMA_SHARE: Final = 0.3
"""This share of the classic groups has members of Sarama."""
FRANZ_SHARE: Final = 0.3
"""This share of the classic groups has members of franz-go."""
EACH: Final = 5
"""This many of SOMETIMES are in one recording."""
EPOCHS_SHARE: Final = 0.25
"""This share of the groups are KIP-848 groups, if their script allows it."""
RARE_SHARE: Final = 0.15
"""This share of the groups commits rarely."""
TROUBLES: Final = ("away", "none", "away-frozen", "restart", "away", "hosts")
"""What hits the broker, or the hosts of all members, while the scripts play."""


class Cast(NamedTuple):
    """The groups of one recording, and the broker's trouble."""

    parts: tuple[Part, ...]
    trouble: str
    after_s: float
    """When the trouble begins."""
    begins: str | None = None
    """How the log begins in mid-life (`brokers`); None: it is whole."""


def cast(seed: int) -> Cast:
    """The recording with this number. Recordings one after the other have all happenings, and all kinds of trouble."""
    chance = random.Random(f"drawn:{seed}")
    if seed >= TRUE_FROM:
        return _true(seed, chance)
    if seed >= RARE_FROM:
        return _rare(seed, chance)
    is_more = seed >= FRANZ_FROM
    deck = [*SOMETIMES, *MORE] if is_more else list(SOMETIMES)
    random.Random(f"deck:{seed * EACH // len(deck)}").shuffle(deck)
    first = seed * EACH % len(deck)
    some = [deck[(first + number) % len(deck)] for number in range(EACH)]
    if seed >= LATEST_FROM:
        latest = (seed - LATEST_FROM) * EACH_LATEST
        some[EACH_LATEST:] = [LATEST[(latest + number) % len(LATEST)] for number in range(EACH_LATEST)]
    parts = tuple(_with_settings(part, chance) for part in (*ALWAYS, *some))
    if is_more:
        parts = tuple(_with_franz(part, random.Random(f"{FRANZ}:{seed}:{part.name}")) for part in parts)
    if seed >= LATEST_FROM:
        parts = tuple(_with_sarama(part, random.Random(f"{SARAMA}:{seed}:{part.name}")) for part in parts)
    return Cast(parts, TROUBLES[seed % len(TROUBLES)], chance.uniform(45, 80))


def _rare(seed: int, chance: random.Random) -> Cast:
    """A recording of RARE happenings: three of them, one after the other, have all."""
    deck = list(RARE)
    random.Random(f"rare:{seed * EACH_RARE // len(deck)}").shuffle(deck)
    first = seed * EACH_RARE % len(deck)
    parts = [_with_settings(part, chance) for part in (ALWAYS[0], *deck[first : first + EACH_RARE])]
    some = tuple(_with_sarama(_with_franz(part, chance), chance) for part in parts)
    trouble = RARE_TROUBLES[seed % len(RARE_TROUBLES)]
    after_s = chance.uniform(3, 15) if trouble == "away-early" else chance.uniform(45, 80)
    return Cast(some, trouble, after_s)


def _true(seed: int, chance: random.Random) -> Cast:
    """A recording of happenings of each kind: four of them, one after the other, have most of them."""
    parts = [ALWAYS[0]]
    for number, (all_of_it, count) in enumerate(TRUE_DECKS):
        deck = list(all_of_it)
        first = (seed - TRUE_FROM) * count
        random.Random(f"true:{number}:{first // len(deck)}").shuffle(deck)
        parts += [deck[(first + place) % len(deck)] for place in range(count)]
    some = tuple(_with_sarama(_with_franz(_with_settings(part, chance), chance), chance) for part in parts)
    trouble = TRUE_TROUBLES[seed % len(TRUE_TROUBLES)]
    return Cast(some, trouble, chance.uniform(120, 150) if trouble == "away-late" else chance.uniform(45, 80))


def _with_settings(part: Part, chance: random.Random) -> Part:
    options = dict(part.options)
    if chance.random() < EPOCHS_SHARE and "max_poll_ms" not in options:
        options.setdefault("protocol", "consumer")
        if options.get("client") and options["protocol"] == "consumer":
            options["client"] = ("java", "confluent")
    if "commit_ms" not in options and chance.random() < RARE_SHARE:
        options["commit_ms"] = (15_000, 25_000)
    return Part(part.name, part.play, options)


def _with_franz(part: Part, chance: random.Random) -> Part:
    """franz-go has neither KIP-848 groups here, nor a limit between two polls."""
    options = part.options
    is_able = options.get("protocol") != "consumer" and "max_poll_ms" not in options and "client" not in options
    if not is_able or chance.random() >= FRANZ_SHARE:
        return part
    return Part(part.name, part.play, {**options, "client": FRANZ})


def _with_sarama(part: Part, chance: random.Random) -> Part:
    """Sarama has neither KIP-848 groups, nor a limit between two polls, nor seeks (by hand, some scripts seek)."""
    options = part.options
    is_able = options.get("protocol") != "consumer" and not {"max_poll_ms", "client", "commits"} & {*options}
    if not is_able or chance.random() >= SARAMA_SHARE:
        return part
    return Part(part.name, part.play, {**options, "client": SARAMA})
