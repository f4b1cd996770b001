"""Make conform/player/messages.json and errors.json, by which `muster conform` judges a broker.

    python -m tools.codec.player_messages [--check]

messages.json has every message that clients and tools exchange with a broker. It also has the consumer protocol's.
errors.json has the names of the error codes. `distil` and `KafkaErrors` take both from Kafka's jars. This module gives
them the player's form.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.codec.schema import DEFINITIONS

PLAYER = Path(__file__).parents[2] / "conform" / "player"
ERRORS = Path(__file__).with_name("errors.tsv")
DATA = ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription")
MESSAGE_KEYS = ("apiKey", "validVersions", "flexibleVersions", "latestVersionUnstable")
LEFT_OUT = ("ignorable", "mapKey")
"""What a client's encoder asks a field about, and the player does not."""


def field(raw: dict[str, Any]) -> dict[str, Any]:
    """A field in the player's form."""
    kept = {key: value for key, value in raw.items() if key not in LEFT_OUT}
    if "fields" in raw:
        kept["fields"] = [field(one) for one in raw["fields"]]
    return kept


def message(raw: dict[str, Any]) -> dict[str, Any]:
    """A message in the player's form."""
    kept = {key: raw[key] for key in MESSAGE_KEYS if key in raw}
    kept["fields"] = [field(one) for one in raw["fields"]]
    if "commonStructs" in raw:
        kept["commonStructs"] = {one["name"]: [field(f) for f in one["fields"]] for one in raw["commonStructs"]}
    return kept


def messages() -> str:
    """messages.json as it should be."""
    definitions = json.loads(DEFINITIONS.read_text())["messages"]
    rows = sorted(
        f'"{one["name"]}":{json.dumps(message(one), separators=(",", ":"))}'
        for one in definitions
        if one["source"] == "wire" and (one["type"] != "data" or one["name"] in DATA)
    )
    return "{\n" + ",\n".join(rows) + "\n}\n"


def errors() -> str:
    """errors.json as it should be."""
    rows = [line.split("\t") for line in ERRORS.read_text().splitlines() if line]
    names = {int(row[0]): row[1] for row in rows if row[0].lstrip("-").isdigit()}
    return json.dumps({str(code): names[code] for code in sorted(names)}, indent=1) + "\n"


FILES = {"messages.json": messages, "errors.json": errors}


def main(arguments: list[str]) -> int:
    """Write the files; with --check only say whether they are as they should be."""
    bad = 0
    for name, text in FILES.items():
        if "--check" not in arguments:
            (PLAYER / name).write_text(text())
        elif (PLAYER / name).read_text() != text():
            print(f"{name} differs: run python -m tools.codec.player_messages")
            bad = 1
    return bad


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
