from __future__ import annotations

import itertools

from muster.conform.player.asking import VERBS
from muster.conform.player.stage import split_args
from muster.conform.player.story import Step
from tests.stories.random.mixed_histories import REQUESTS, history
from tests.stories.random.ways import Timeline

BROKER = {"group.consumer.assignment.interval.ms": "0"}
SEEDS = range(200)


def lines_of(seed: int) -> list[str]:
    return [item.line for item in history(seed, BROKER).items if isinstance(item, Step)]


def test_a_seed_always_gives_the_same_mixed_history() -> None:
    assert [history(seed, BROKER).text for seed in SEEDS] == [history(seed, BROKER).text for seed in SEEDS]
    assert len({tuple(lines_of(seed)) for seed in SEEDS}) == len(SEEDS)


def test_the_group_is_described_after_each_step() -> None:
    for seed in SEEDS:
        lines = lines_of(seed)
        for line, following in itertools.pairwise(lines):
            assert "consumer-describe" in (line + following) or line.endswith((": restart", ": drop")), line


def test_mixed_histories_have_each_request_and_both_heartbeat_versions() -> None:
    asked: dict[str, set[str]] = {}
    for line in (line for seed in SEEDS for line in lines_of(seed) if not line.startswith("advance")):
        verb, _, rest = line.partition(": ")[2].partition(" ")
        asked.setdefault(verb, set()).add(split_args(rest)[0].get("v", "newest"))
    of_topics = {"create-topic", "grow-topic", "delete-topic"}
    assert asked.keys() == {*REQUESTS.keys() - {"come"}, "enter", *of_topics}
    assert {verb for verb in asked if verb not in VERBS} == {"enter", "drop", "restart"}
    assert asked["consumer-heartbeat"] == {"newest", "0"}
    assert asked["commit"] == {"newest", *map(str, range(2, 11))}


def test_mixed_histories_have_each_kind_of_wrong_argument() -> None:
    text = "\n".join(line for seed in SEEDS for line in lines_of(seed))
    for what in (
        *("epoch=epoch-1", "epoch=-2", "epoch=-3", "owned=mine-1", "owned=t1/7", "rebalance=-2", "assignor=nobody"),
        *(
            "member=id:ghost",
            "member=none",
            "instance=i-x",
            "regex=(",
            "regex=[uw]~",
            "topics=none",
            "generation=epoch",
        ),
    ):
        assert what in text, what


def test_a_deletable_topic_is_named_only_in_histories_that_have_one() -> None:
    for seed in SEEDS:
        story = history(seed, BROKER)
        if not story.own_topics:
            assert "delete-topic" not in story.text
            assert "topics=u" not in story.text


def test_a_timeline_table_keeps_its_size_and_lists_the_newest_first() -> None:
    table = Timeline()
    assert table.follow(["range"]) == ["range"]
    assert table.follow(["range", "uniform"]) == ["uniform", "range"], "uniform is in slot 0, range in slot 1"
    many = [f"m{i}" for i in range(20)]
    order = table.follow(many)
    assert sorted(order) == sorted(many)
    assert table.follow(many[::2]) == [one for one in order if one in many[::2]], "nothing moves when some go"
