"""The error answers of Kafka's classes; `tests/coordinator/api/test_full_refusals.py` expects the same of Muster."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from muster.protocol.api import api
from tests.coordinator.api.full_requests import GOLDEN, errors, fitting, kafkas, versions
from tests.support.servers import KAFKA_SCRIPTS


def test_the_recorded_error_responses_are_kafkas() -> None:
    """`MUSTER_FREEZE=1` writes the answers."""
    requests = [(key, version, fitting(key, version)) for key, version in versions()]
    asked = [f"{key} {version} {api(key).encode_request(version, one).hex()}" for key, version, one in requests]
    command = [KAFKA_SCRIPTS / "kafka-tool.sh", Path(__file__).with_name("Refusals.java")]
    done = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True, timeout=120, check=True)
    answers: dict[str, object] = {}
    for line in done.stdout.splitlines():
        key, version, reported = line.split(" ", 2)
        name = f"{api(int(key)).name} {version}"
        if " " in reported or reported == "none":
            answers[name] = reported
            continue
        response = api(int(key)).decode_response(int(version), bytes.fromhex(reported))
        answers[name] = [[*path] for path, error in errors(response).items() if error]
    if os.environ.get("MUSTER_FREEZE"):
        rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in answers.items())
        GOLDEN.write_text(f"{{\n{rows}\n}}\n")
    assert answers == kafkas()
