from __future__ import annotations

from muster.conform.player import kafka_codec as codec
from muster.conform.player.asking_transactions import VERBS
from muster.conform.player.stage import Stage, split_args
from muster.conform.player.story import Step
from muster.conform.player.tcp import stamp
from tests.stories.random.side import with_ids
from tests.stories.random.transaction_histories import IDS, REQUESTS, history

BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
SEEDS = range(300)


def lines_of(seed: int) -> list[str]:
    return [item.line for item in history(seed, BROKER).items if isinstance(item, Step)]


def test_a_seed_always_gives_the_same_transaction_history() -> None:
    assert [history(seed, BROKER).text for seed in SEEDS] == [history(seed, BROKER).text for seed in SEEDS]
    assert len({tuple(lines_of(seed)) for seed in SEEDS}) == len(SEEDS)


def test_transaction_histories_ask_each_request_in_each_client_version() -> None:
    asked: dict[str, set[str]] = {}
    for line in (line for seed in SEEDS for line in lines_of(seed) if not line.startswith("advance")):
        verb, _, rest = line.partition(": ")[2].partition(" ")
        asked.setdefault(verb, set()).add(split_args(rest)[0].get("v", "newest"))
    named = {request.partition(" ")[0] for request in REQUESTS}
    assert named | {"enter", "sync", "create-topic", "delete-topic"} == asked.keys()
    older = {"txn-init": 5, "txn-add-partitions": 6, "txn-add-offsets": 4, "txn-end": 6}
    for verb, beyond in older.items():
        assert asked[verb] == {"newest", *map(str, range(beyond))}, verb


def test_each_request_of_a_transaction_history_can_be_encoded() -> None:
    for seed in SEEDS:
        story = history(seed, BROKER)
        stage = Stage(story, "~1")
        for actor, name in IDS.items():
            one = stage.actor(actor)
            one.transactional_id, one.producer = stage.group(name), (7, 2)
        for line in lines_of(seed):
            name, _, command = with_ids(line, stage).partition(": ")
            verb, _, rest = command.partition(" ")
            if verb in VERBS and "member=" not in rest:
                args, extra = split_args(rest)
                api, version, body = VERBS[verb](stage, stage.actor(name), args, extra)
                stamp(body, 1)
                assert codec.encode_request(api, int(args.get("v", version)), 1, name, body), line
