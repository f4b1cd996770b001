from __future__ import annotations

import re

from muster.conform.player.asking_transactions import VERBS
from muster.conform.player.stage import pairs, split_args
from muster.conform.player.story import Step
from tests.stories.random.histories import REQUESTS, history

BROKER = {"group.max.size": "4", "group.initial.rebalance.delay.ms": "0"}
SEEDS = range(400)


def lines_of(seed: int) -> list[str]:
    return [item.line for item in history(seed, BROKER).items if isinstance(item, Step)]


def test_a_seed_always_gives_the_same_classic_history() -> None:
    assert [history(seed, BROKER).text for seed in SEEDS] == [history(seed, BROKER).text for seed in SEEDS]
    assert len({tuple(lines_of(seed)) for seed in SEEDS}) == len(SEEDS)


def test_a_history_names_its_settings_and_topics() -> None:
    assert history(1, BROKER).broker == BROKER
    assert history(1, BROKER).topics == {"t1": 3, "t2": 1}


def test_classic_histories_ask_each_request_in_each_client_version() -> None:
    asked: dict[str, set[str]] = {}
    for line in (line for seed in SEEDS for line in lines_of(seed) if not line.startswith("advance")):
        verb, _, rest = line.partition(": ")[2].partition(" ")
        asked.setdefault(verb, set()).add(split_args(rest)[0].get("v", "newest"))
    assert asked.keys() == REQUESTS.keys()
    assert {verb for verb in asked if verb not in VERBS} == {"enter", "drop", "restart"}
    older = {"join": 9, "sync": 5, "heartbeat": 4, "leave": 5, "describe": 6, "list": 5}
    for verb, newest in older.items():
        assert asked[verb] == {"newest", *map(str, range(newest))}, verb
    assert asked["commit"] == {"newest", *map(str, range(2, 11))}
    assert asked["fetch"] == {"newest", *map(str, range(2, 11))}


def test_classic_histories_have_each_kind_of_wrong_argument() -> None:
    text = "\n".join(line for seed in SEEDS for line in lines_of(seed))
    for what in ("member=id:ghost", "member=none", "instance=i-x", "generation=-1", "generation=+1", "protocols=none"):
        assert what in text, what
    assert re.search(r"^\w( \w)+: join$", text, re.MULTILINE), "several actors in one step"


def test_requests_that_break_a_group_of_kafka_are_not_asked() -> None:
    for line in (line for seed in SEEDS for line in lines_of(seed)):
        offered = pairs(split_args(line.partition(": ")[2])[0].get("protocols"))
        names = [name for name, _ in offered]
        assert len(names) == len(set(names))
        assert all(len(metadata) <= 2 for _, metadata in offered)
