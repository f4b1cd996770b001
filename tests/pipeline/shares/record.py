"""Records the logs of share groups again: `python -m tests.pipeline.shares.record`. It needs Java and Maven.

The same program (Shares.java) drives groups on a real Kafka 4.4 and on Muster, each for half a minute.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.support.servers import KAFKA_SCRIPTS, KafkaServer, MusterServer, ServerProcess

HERE: Final = Path(__file__).parent
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "50",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.session.timeout.ms": "6000",
}
KAFKAS: Final = {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}


def record(name: str, server: ServerProcess, logs: Path) -> None:
    """Drive the groups on a server, and keep its log."""
    server.start()
    tool, program = KAFKA_SCRIPTS / "kafka-tool.sh", HERE / "Shares.java"
    subprocess.run([tool, program, "--bootstrap-server", server.bootstrap], check=True, timeout=180)
    server.stop()
    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as kept:
        for file in sorted([*logs.glob("*/*.log"), *logs.glob("*/partition.metadata")]):
            if file.stat().st_size and not file.parent.name.startswith("__cluster_metadata"):
                kept.add(file, file.relative_to(logs), filter=_nobody)


def _nobody(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def main() -> None:
    """Record both logs."""
    with tempfile.TemporaryDirectory() as folder:
        kafka, muster = Path(folder) / "kafka", Path(folder) / "muster"
        record("kafka", KafkaServer(kafka, {**PROPERTIES, **KAFKAS}), kafka / "data" / "logs")
        record("muster", MusterServer(muster, PROPERTIES), muster / "data")


if __name__ == "__main__":
    main()
