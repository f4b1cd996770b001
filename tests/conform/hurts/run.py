"""Run clients against a Muster whose answers are changed, and write down what happens to them.

    python -m tests.conform.hurts.run [--changes ID,ID] [--clients NAME,NAME] [--seconds 8] FILE

FILE gets one line of JSON for each trial, as it ends. `make conformance-hurts` compares it with conform/hurts.toml.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.conform.changing_proxy import ChangingProxy
from tests.conform.hurts.changes import CHANGES
from tests.support import muster
from tests.support.servers import kafka_jars

HERE = Path(__file__).parent
WORDS = ("produced", "consumed", "committed", "closed", "resumed", "error")
"""The first words of a trial's lines; clients also write log lines."""
SIDE_BY_SIDE = 2
FRANZ, SARAMA = "v1.22.3", "v1.61.1"
JAVA = "4.4.0"

CLIENTS = {
    "aiokafka": f"aiokafka {version('aiokafka')}",
    "confluent-kafka": f"confluent-kafka {version('confluent-kafka')}",
    "kafka-python": f"kafka-python {version('kafka-python')}",
    "java": f"Java {JAVA}",
    "franz-go": f"franz-go {FRANZ}",
    "sarama": f"sarama {SARAMA}",
    "java-consumer": f"Java {JAVA}, group.protocol=consumer",
    "confluent-kafka-consumer": f"confluent-kafka {version('confluent-kafka')}, group.protocol=consumer",
}
GO = {"franz-go": "franz", "sarama": "sarama"}
"""Clients in Go, and the folders of their programs."""


def commands(names: list[str], folder: Path) -> dict[str, list[str]]:
    """How each client is started; those that need it are compiled into the folder."""
    found = {}
    for name in names:
        if name.startswith("java"):
            jars = kafka_jars()
            subprocess.run(["javac", "-cp", f"{jars}/*", "-d", folder, HERE / "workers" / "Trial.java"], check=True)
            flags = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
            found[name] = ["java", *flags, "-cp", f"{folder}:{jars}/*", "Trial"]
            found[name].append("consumer" if name.endswith("-consumer") else "classic")
        elif name in GO:
            program = folder / GO[name]
            subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "workers" / GO[name], check=True)
            found[name] = [str(program)]
        else:
            found[name] = [sys.executable, "-m", "tests.conform.hurts.workers.python_clients", name]
    return found


async def trial(port: int, change: str, command: list[str], seconds: float) -> dict[str, Any]:
    """One client against one change: its lines, and how many answers were changed."""
    proxy = ChangingProxy(("127.0.0.1", port), CHANGES[change])
    proxy.server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.own = ("127.0.0.1", proxy.port)
    name = f"{change}-{command[-1].rpartition('/')[2]}-{proxy.port}"
    words = [f"127.0.0.1:{proxy.port}", f"t-{name}", f"g-{name}", str(seconds)]
    process = await asyncio.create_subprocess_exec(
        *command, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(4 * seconds + 20):
            while line := await process.stdout.readline():
                text = line.decode(errors="replace").strip()
                if text.partition(" ")[0] in WORDS:
                    lines.append(text)
    except TimeoutError:
        lines.append("error end the process did not end")
        process.kill()
    status = await process.wait()
    if status < 0 and not any(line.startswith("error end") for line in lines):
        lines.append(f"error crash signal {-status}")
    proxy.server.close()
    return {"lines": lines, "changed": proxy.changed}


def is_for(change: str, client: str) -> bool:
    """Consumers of KIP-848 are only run against faults of its requests, and others against all other faults."""
    return client.endswith("-consumer") == change.startswith("consumer-") or change == "as-it-is"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--changes", default=",".join(CHANGES))
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    gate = asyncio.Semaphore(SIDE_BY_SIDE)
    with tempfile.TemporaryDirectory() as folder, options.file.open("w") as out:
        programs = commands(options.clients.split(","), Path(folder))
        async with muster.running() as server:

            async def one(change: str, client: str) -> None:
                async with gate:
                    found = await trial(server.bound[0].port, change, programs[client], options.seconds)
                row = {"change": change, "client": CLIENTS[client], **found}
                out.write(json.dumps(row) + "\n")
                out.flush()
                print(change, client, found["changed"], found["lines"][-1:], file=sys.stderr)

            changes = options.changes.split(",")
            await asyncio.gather(
                *(one(change, name) for change in changes for name in programs if is_for(change, name))
            )


if __name__ == "__main__":
    asyncio.run(main())
