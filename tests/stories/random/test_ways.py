from __future__ import annotations

from pathlib import Path

from muster.conform.player.story import Story
from tests.stories.random.histories import history
from tests.stories.random.virtually import play
from tests.stories.random.ways import FORGOTTEN, LEADER, PARAGRAPHS, RENAMED, KafkaWays, OwnWays, java_order

CONFORMANCE = Path(__file__).parents[3] / "docs" / "conformance.md"


def test_each_way_of_kafka_is_a_paragraph_of_the_conformance_page() -> None:
    text = CONFORMANCE.read_text(encoding="utf-8")
    assert [paragraph for paragraph in PARAGRAPHS if f"**{paragraph}" not in text] == []


def test_java_orders_strings_by_hash() -> None:
    # by String.hashCode: "a" is 97, bucket 1; "p" is 112, bucket 0; "b" bucket 2
    assert java_order(["b", "a", "p"]) == ["p", "a", "b"]


async def played(ways: type[OwnWays], *lines: str) -> str:
    story = Story(
        "told",
        "broker group.initial.rebalance.delay.ms=0 group.min.session.timeout.ms=100\ntopics t1=3\n"
        + "\n".join(lines)
        + "\n",
    )
    outcome, _ = await play(story, {"one": (ways, ways)})
    assert outcome.difference is None
    return outcome.text


async def test_kafka_leaves_abandoned_requests_without_an_answer() -> None:
    steps = (
        "A: enter instance=i-a session=1000 rebalance=30000",
        "B: enter rebalance=30000",
        "B: join",
        "advance 20000",
    )
    ours, kafkas = await played(OwnWays, *steps), await played(KafkaWays, *steps)
    assert "REBALANCE_IN_PROGRESS" in ours
    assert "REBALANCE_IN_PROGRESS" not in kafkas


async def test_a_tied_vote_is_decided_by_hash() -> None:
    steps = (
        "A: enter protocols=sticky",
        "A: sync",
        "A: join protocols=range,sticky",
        "B: enter protocols=sticky,range",
        "A: join",
    )
    first, second = java_order(["range", "sticky"])
    assert "generation=3 protocol=range" in await played(OwnWays, *steps), "the leader's own preference"
    assert f"generation=3 protocol={first}" in await played(KafkaWays, *steps)
    assert first != second


async def test_an_unsynced_static_member_that_restarts_causes_a_rebalance() -> None:
    steps = (
        "A: enter instance=i-a rebalance=1000",
        "B: enter instance=i-b rebalance=1000",
        "A: join",
        "A: sync",
        "B: restart",
        "B: join",
        "B: sync",
        "A: heartbeat",
        "advance 1500",
        "A: heartbeat",
    )
    assert (await played(OwnWays, *steps)).endswith("A <- heartbeat ok\n")
    assert (await played(KafkaWays, *steps)).endswith("A <- heartbeat REBALANCE_IN_PROGRESS\n")


async def test_a_refused_commit_leaves_a_group_that_may_be_hidden() -> None:
    story = Story("told", "topics t1=3\nA: commit t1/0=1:x*4097\nA: list\nA: describe\nA: offset-delete t1/0\n")
    outcome, worlds = await play(story, {"kafka": (KafkaWays, KafkaWays), "other": (KafkaWays, KafkaWays)})
    assert outcome.difference is None
    assert outcome.text.endswith("A <- offset-delete ok t1/0=ok\n"), "it is there"
    assert worlds[0].core.ways.unseen() == {"g"} == worlds[1].core.ways.unseen()


async def test_a_rejoin_under_another_instance_id_leaves_the_history_open() -> None:
    joins = "A: consumer-heartbeat epoch=0 owned=none rebalance=30000 topics=t1 instance="
    for second, opened_by in (("i-b", RENAMED), ("i-a", "")):
        story = Story("told", f"topics t1=3\n{joins}i-a\n{joins}{second}\n")
        _, worlds = await play(story, {"kafka": (KafkaWays, KafkaWays), "other": (KafkaWays, KafkaWays)})
        assert worlds[0].core.ways.open_by == opened_by


async def test_kafkas_way_assigns_to_members_with_other_subscriptions() -> None:
    joins = "consumer-heartbeat owned=none rebalance=30000 topics="
    outcome = await played(KafkaWays, f"A: {joins}t1,t2", f"B: {joins}t1")
    assert "B <- consumer-heartbeat ok epoch=2 assignment=[]" in outcome


async def test_a_removed_group_may_still_check_fetches_of_offsets() -> None:
    joins = "topics t1=3\nA: consumer-heartbeat owned=none rebalance=30000 topics=t1\n"
    forgotten = f"{joins}A: consumer-heartbeat epoch=-1\nA: join\n"
    for asked, opened_by in (("fetch epoch=1 t1/1", FORGOTTEN), ("fetch t1/1", "")):
        story = Story("told", f"{forgotten}B: {asked}\n")
        _, worlds = await play(story, {"kafka": (KafkaWays, KafkaWays), "other": (KafkaWays, KafkaWays)})
        assert worlds[0].core.ways.met[FORGOTTEN] == 1
        assert worlds[0].core.ways.open_by == opened_by


async def test_histories_of_both_cores_are_explained() -> None:
    opened = replies = alike = 0
    for seed in range(12):
        story = history(seed, {"group.initial.rebalance.delay.ms": "300", "group.min.session.timeout.ms": "100"})
        outcome, _ = await play(story, {"kafka": (KafkaWays, KafkaWays), "muster": (OwnWays, OwnWays)})
        assert outcome.difference is None, seed
        opened += outcome.met[LEADER]
        replies, alike = replies + outcome.replies, alike + outcome.alike
    assert replies * 0.9 < alike <= replies
    assert opened == 0, "both cores choose the same leaders"
