"""What recordings draw at random: a few of them have all scripts and all kinds of trouble."""

from __future__ import annotations

import random

from tests.pipeline.recording.brokers import coordinators, hit_by
from tests.pipeline.recording.cast import KAFKAJS
from tests.pipeline.recording.grammar import (
    FRANZ,
    FRANZ_FROM,
    LATEST,
    LATEST_FROM,
    MORE,
    RARE,
    RARE_FROM,
    RARE_TROUBLES,
    SARAMA,
    SOMETIMES,
    TROUBLES,
    TRUE_DECKS,
    TRUE_FROM,
    TRUE_TROUBLES,
)
from tests.pipeline.recording.grammar_wide import ANY, DECKS, WIDE_FROM, cast, programs_of
from tests.pipeline.recording.grammar_wide import TROUBLES as WIDE_TROUBLES
from tests.pipeline.recording.record import options_of
from tests.pipeline.recording.scripts import Part

SEEDS = range(1, 13)
LIBRARIES = {"aiokafka", "confluent", "java", "kafka-python"}
CONSUMER_PROTOCOL = {"confluent", "java"}


def all_options() -> list[tuple[Part, dict[str, object]]]:
    return [
        (part, options_of(part, number, random.Random(f"{seed}:{part.name}")))
        for seed in SEEDS
        for number, part in enumerate(cast(seed).parts)
    ]


def test_a_seed_always_draws_the_same_groups() -> None:
    assert cast(5) == cast(5)
    assert cast(5) != cast(6)


def test_a_few_recordings_have_all_scripts_and_all_kinds_of_trouble() -> None:
    drawn = [cast(seed) for seed in SEEDS]
    assert {part.name for one in drawn for part in one.parts} >= {part.name for part in SOMETIMES}
    assert {one.trouble for one in drawn} == set(TROUBLES)
    for one in drawn:
        names = [part.name for part in one.parts]
        assert len(names) == len(set(names))


def test_later_seeds_have_more_happenings_and_members_of_franz_go() -> None:
    later = range(FRANZ_FROM, FRANZ_FROM + 12)
    parts = [part for seed in later for part in cast(seed).parts]
    assert {part.name for part in parts} >= {part.name for part in (*SOMETIMES, *MORE)}
    of_franz = [part for part in parts if part.options.get("client") == FRANZ]
    assert of_franz
    assert all(part.options.get("protocol") != "consumer" for part in of_franz)
    assert not any(programs_of(cast(seed)) for seed in SEEDS)
    assert any(programs_of(cast(seed)) for seed in later)


def test_the_latest_seeds_have_what_only_looks_like_a_stall_and_members_of_sarama() -> None:
    latest = range(LATEST_FROM, LATEST_FROM + 12)
    parts = [part for seed in latest for part in cast(seed).parts]
    assert {part.name for part in parts} >= {part.name for part in LATEST}
    of_sarama = [part for part in parts if part.options.get("client") == SARAMA]
    assert of_sarama
    assert not {part.name for part in of_sarama} & {"skips", "skips-ahead", "rewinds", "slow-polls"}
    assert {FRANZ, SARAMA} == {client for seed in latest for client in programs_of(cast(seed))}


def test_three_rare_recordings_have_all_rare_happenings() -> None:
    some = [cast(seed) for seed in range(RARE_FROM, RARE_FROM + 6)]
    for three in (some[:3], some[3:]):
        assert {part.name for one in three for part in one.parts} == {"calm", *(part.name for part in RARE)}
    assert {one.trouble for one in some} == set(RARE_TROUBLES)


def test_from_200_on_each_recording_has_stalls_skips_and_groups_that_are_too_slow() -> None:
    some = [cast(seed) for seed in range(TRUE_FROM, TRUE_FROM + 12)]
    for one in some:
        names = [part.name for part in one.parts]
        assert len(names) == len(set(names))
        assert all(sum(part.name in {other.name for other in deck} for part in one.parts) >= count
                   for deck, count in TRUE_DECKS)  # fmt: skip
    drawn = {part.name for one in some for part in one.parts}
    assert drawn == {"calm", *(part.name for deck, _ in TRUE_DECKS for part in deck)}
    assert {one.trouble for one in some} == set(TRUE_TROUBLES)
    options = [options_of(part, number, random.Random(part.name)) for one in some
               for number, part in enumerate(one.parts)]  # fmt: skip
    assert {one["batch_s"] for one in options} == {0.5, 5.0, 15.0}
    assert {one["same_name"] for one in options} == {False, True}
    assert all(min(part.options.get("partitions", (4,))) >= 3 for one in some for part in one.parts)


def test_from_220_on_recordings_have_three_brokers_transactions_and_every_library() -> None:
    some = [cast(seed) for seed in range(WIDE_FROM, WIDE_FROM + 6)]
    assert {(one.trouble, one.begins) for one in some} == set(WIDE_TROUBLES)
    for one in some:
        names = [part.name for part in one.parts]
        assert len(names) == len(set(names))
        assert all(sum(name in {part.name for part in deck} for name in names) >= count for deck, count in DECKS)
    options = [options_of(part, number, random.Random(part.name)) for one in some
               for number, part in enumerate(one.parts)]  # fmt: skip
    assert {one["client"] for one in options} == {*ANY, KAFKAJS}
    assert {one["names"] for one in options if "names" in one} == {"numbers", "pods", "streams", "connect"}
    transactional = [one for one in options if one["commits"] == "transactions"]
    assert transactional
    assert {one["client"] for one in (*transactional, *(one for one in options if one["protocol"] == "consumer"))} <= {
        "java",
        "confluent",
    }


def test_the_broker_with_most_groups_is_away() -> None:
    coordinated = coordinators(["a", "b", "c"], {0: 3, 1: 1, 2: 1})
    assert coordinated == {"a": 1, "b": 1, "c": 3}  # the hashes are 97 to 99
    assert hit_by(coordinated) == (1, ["a", "b"])


def test_all_libraries_are_drawn_and_consumer_groups_only_with_those_that_have_them() -> None:
    drawn = all_options()
    assert {options["client"] for _, options in drawn} == LIBRARIES
    assert {options["client"] for part, options in drawn if part.name == "crashes"} >= CONSUMER_PROTOCOL
    of_epochs = [options for _, options in drawn if options["protocol"] == "consumer"]
    assert of_epochs
    assert {options["client"] for options in of_epochs} <= CONSUMER_PROTOCOL
    assert not [options for options in of_epochs if options["max_poll_ms"] != 300_000]
