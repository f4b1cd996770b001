"""Records a log of a real Kafka 4.3, and the truth about it. Some twenty groups of four client libraries have one
process for each member. The scripts (`scripts`) cause what the pipeline should find.

`python -m tests.pipeline.recording.record DIR [--cast NAME] [--seed N] [--delay-ms N] [--trouble NAME] [--keep FILE]`:
`--cast consumer` plays KIP-848 groups and what else classic ones do not have (`scripts_epochs`). `--cast drawn` plays
groups that the seed draws, and trouble in their midst (`grammar`). It runs Kafka in DIR and leaves there its data
(DIR/data/logs), `truth.jsonl` (its form: `truths`) and `journal.jsonl` (what each client said, by its own clock, and
what was done to it); `--keep` packs them. It takes two cores for some five minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tarfile
import threading
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from tests.pipeline.recording import brokers
from tests.pipeline.recording.begins import CUT
from tests.pipeline.recording.brokers import compact, cut
from tests.pipeline.recording.cast import FORKS, Group, Journal, Stage, built, compiled, feed, make_topics, now_ms
from tests.pipeline.recording.grammar import Cast
from tests.pipeline.recording.grammar_wide import cast as drawn
from tests.pipeline.recording.grammar_wide import programs_of
from tests.pipeline.recording.scripts import CAST, Part, together
from tests.pipeline.recording.scripts_epochs import EPOCH_CAST, mixed, upgraded
from tests.pipeline.recording.troubles import in_the_midst, trouble
from tests.pipeline.recording.truths import write
from tests.support.servers import KafkaCluster, KafkaServer

CLIENTS: Final = ("aiokafka", "confluent", "java", "kafka-python")
SESSIONS_MS: Final = (6_000, 10_000, 10_000, 45_000)
HEARTBEATS_MS: Final = (500, 1_000, 2_000, 3_000, 3_000)
COMMITS_MS: Final = (500, 1_000, 1_000, 2_000, 5_000)
EPOCH_CLIENTS: Final = ("confluent", "java", "confluent")
EPOCH_SESSIONS_MS: Final = (10_000, 45_000, 45_000)
EPOCH_HEARTBEAT_MS: Final = 5_000
CASTS: Final = {"classic": CAST, "consumer": EPOCH_CAST}
DRAWN: Final = "drawn"
START_S: Final = 600.0
"""On a busy machine the broker starts within this time."""
CONSUMER_SESSION_MS: Final = 45_000
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


def options_of(part: Part, number: int, chance: random.Random) -> dict[str, Any]:
    """The options of one group of the cast."""

    def drawn(name: str, *usual: Any) -> Any:
        given = part.options.get(name, usual)
        return chance.choice(given) if isinstance(given, tuple) else given

    protocol = part.options.get("protocol", "classic")
    some = CLIENTS if protocol == "classic" else EPOCH_CLIENTS
    client = drawn("client", some[number % len(some)])
    session_ms = drawn("session_ms", *(SESSIONS_MS if protocol == "classic" else EPOCH_SESSIONS_MS))
    is_usual = protocol == "consumer" and session_ms == CONSUMER_SESSION_MS
    heartbeats_ms = (EPOCH_HEARTBEAT_MS,) if is_usual else HEARTBEATS_MS if protocol == "classic" else HEARTBEATS_MS[1:]
    assignor = drawn("assignor", "range", "roundrobin", *(() if client == "aiokafka" else ("cooperative-sticky",) * 2))
    return {
        "client": client, "session_ms": session_ms, "assignor": assignor,
        "heartbeat_ms": min(drawn("heartbeat_ms", *heartbeats_ms), session_ms // 3),
        "commit_ms": drawn("commit_ms", *COMMITS_MS), "commits": drawn("commits", "auto", "auto", "hand"),
        "max_poll_ms": drawn("max_poll_ms", 300_000), "rewinds": drawn("rewinds", 0),
        "batch_s": drawn("batch_s", 0.5), "same_name": drawn("same_name", False),
        "static": drawn("static", False), "protocol": protocol, "metadata_ms": drawn("metadata_ms", 300_000),
        **({"names": drawn("names")} if "names" in part.options else {}),
        **({"server_assignor": chance.choice(("uniform", "uniform", "range"))} if knows_epochs(part) else {}),
    }  # fmt: skip


def knows_epochs(part: Part) -> bool:
    """Whether the group is, or becomes, a KIP-848 group."""
    return part.options.get("protocol") == "consumer" or part.play in (upgraded, mixed)


def play(server: KafkaServer, stage: Stage, options: argparse.Namespace, cast: list[Group], scene: Cast | None) -> None:
    """Play all groups, from the beginning to the end; `cast` gets them, so that no group outlives a failure."""
    chance = random.Random(options.seed)
    parts = CASTS[options.cast] if scene is None else scene.parts
    first = chance.randrange(len(CLIENTS))
    topics = stage.topics
    for number, part in enumerate(parts):
        own = random.Random(f"{options.seed}:{part.name}")
        name, partitions = f"{part.name}-{options.seed}", own.choice(part.options.get("partitions", (4, 4, 6)))
        topics[name] = partitions
        if part.name in ("given-up", "two-topics") or part.options.get("second_topic"):
            topics[f"{name}-2"] = partitions
        cast.append(Group(stage, name, own, name, partitions, options_of(part, first + number, own)))
    make_topics(stage.admin, topics, stage.replicas)
    for part, group in zip(parts, cast, strict=True):
        if knows_epochs(part):
            _configure(group)
    over = threading.Event()
    feeding = threading.Thread(target=feed, args=(stage, topics, chance, over), daemon=True)
    feeding.start()
    time.sleep(4)
    plays = [threading.Thread(target=_play, args=(part, group)) for part, group in zip(parts, cast, strict=True)]
    if scene is not None:
        more = [threading.Thread(target=in_the_midst, args=(scene, cast, server, stage))]
        if scene.begins is not None:
            more.append(threading.Thread(target=compact, args=(stage, scene.begins)))
        together([*plays, *more])
        time.sleep(20)
    else:
        together(plays)
        trouble(options.trouble, cast, server, stage)
        for group in cast[:4]:
            begun, members = now_ms(), group.running
            group.stop(*members)
            group.episode("whole_stop", begun, members)
        time.sleep(8)
    for group in cast:
        stage.truth.write(kind="end", group=group.name, at=now_ms())
    over.set()
    feeding.join()


def _configure(group: Group) -> None:
    """Set session and heartbeats of a KIP-848 group at the broker, if they differ from the defaults."""
    session_ms = group.options["session_ms"]
    if session_ms == CONSUMER_SESSION_MS:
        return
    times = {"consumer_session_timeout_ms": session_ms, "consumer_heartbeat_interval_ms": group.options["heartbeat_ms"]}
    group.configure(**times)


def _play(part: Part, group: Group) -> None:
    time.sleep(group.random.uniform(0, 12))  # not all JVMs at once
    try:
        part.play(group)
    except Exception:  # noqa: BLE001  # the others go on
        traceback.print_exc()
        print(f"{group.name} ended early", flush=True)


def pack(directory: Path, archive: Path) -> None:
    """Pack the log, the truth and the journal into one archive, without files and lines that no reader needs."""
    acts = directory / "acts.jsonl"
    lines = (directory / "journal.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    acts.write_text("".join(line for line in lines if json.loads(line)["what"] != "committed"), encoding="utf-8")
    with tarfile.open(archive, "w:xz", preset=9) as out:
        out.add(directory / "truth.jsonl", "truth.jsonl")
        out.add(acts, "journal.jsonl")
        for path in _wanted(directory / "data" / "logs"):
            out.add(path, f"log/{path.relative_to(directory / 'data' / 'logs')}")


def _wanted(logs: Path) -> Iterable[Path]:
    for path in sorted(logs.glob("*-*/*")):
        if (
            path.suffix in (".log", ".timeindex")
            and not path.parent.name.startswith(("__cluster", "__transaction"))
            and path.stat().st_size
        ):
            yield path


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--delay-ms", type=int, default=3_000, help="group.initial.rebalance.delay.ms")
    parser.add_argument("--trouble", choices=("freeze", "restart", "hosts"), default="freeze")
    parser.add_argument("--cast", choices=(*CASTS, DRAWN), default="classic")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    directory = options.directory.absolute()
    os.environ["LOG_LEVEL"] = "INFO"  # the broker logs why groups rebalance
    os.environ.setdefault("HEAP", "512M")
    FORKS.set_forkserver_preload(["tests.pipeline.recording.member"])
    scene = drawn(options.seed) if options.cast == DRAWN else None
    properties = {"group.initial.rebalance.delay.ms": str(options.delay_ms), **PROPERTIES}
    is_cluster = scene is not None and scene.trouble in brokers.TROUBLES
    if scene is not None and is_cluster:
        server: KafkaServer = KafkaCluster(directory, properties | brokers.properties(scene.trouble))
    else:
        server = KafkaServer(directory, properties)
    server.start_timeout_s = START_S
    server.start()
    try:
        with (
            (directory / "journal.jsonl").open("w") as journal,
            (directory / "script.jsonl").open("w") as script,
            (directory / "members.log").open("w") as errors,
        ):
            admin = AdminClient({"bootstrap.servers": server.bootstrap})
            needed = () if scene is None else programs_of(scene)
            programs = {client: built(directory, client) for client in needed}
            journals = Journal(journal), Journal(script)
            stage = Stage(server.bootstrap, compiled(directory), programs, *journals, errors, admin)
            stage.replicas = brokers.REPLICAS if is_cluster else 1
            cast: list[Group] = []
            try:
                play(server, stage, options, cast, scene)
            finally:
                for group in cast:
                    group.kill(*group.running)
                server.stop()
    finally:
        if server.running:
            server.kill()
    if is_cluster:
        brokers.merge(directory / "data")
    if scene is not None and scene.begins == CUT:
        cut(directory / "data" / "logs")
    print("writing the truth", flush=True)
    write(directory)
    if options.keep is not None:
        pack(directory, options.keep)


if __name__ == "__main__":
    main()
