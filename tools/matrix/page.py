"""Writes conform/conformance-matrix.md from `results.json` and `system_tests.json`.

python -m tools.matrix.page [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.pages import paragraphs, wrapped

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SYSTEM_TESTS = HERE / "system_tests.json"
PAGE = HERE.parents[1] / "conform" / "conformance-matrix.md"
SHOWN = 6
"""How many stories or probes that failed are named for a broker."""
NEEDS: Mapping[str, str] = {
    "broker": "only a broker, its clients and tools",
    "stops": "brokers that are stopped and started again",
    "replicas": "Kafka's own replicas, controllers, disks or listeners between brokers",
    "versions": "brokers of several releases, or an upgrade of them",
    "harness": "the test machines themselves (networks, faults of file systems)",
}
"""What a system test needs, in the order of the page."""

HEAD = """# Brokers beside Apache Kafka

For those who choose a broker for their tests, or write one. `make conformance-matrix` runs `muster conform` on each
broker that a package registry has. The page is made from `tools/matrix/results.json`.

A cell has what passed, of what was played. Each broker is compared with the release that its ApiVersions is nearest to.
A story ends with its first difference, so one cause may stand for many stories. A story is not played where the broker
does not offer its requests, or cannot have its settings. So a mock is judged by what it offers.
"""


LEFT_OUT = """## Left out

**librdkafka's mock** (2.16.0) waits 3 s before each first generation, and Python cannot set that. So its stories would
say nothing. Metadata 9 has a byte too much, and a ConsumerGroupHeartbeat with topics ends it with a failed assertion.
"""


def page(results: Mapping[str, dict[str, Any]], system_tests: Mapping[str, Any]) -> str:
    """The text of the page."""
    levels = list(dict.fromkeys(level for one in results.values() for level in one["levels"]))
    out = [
        *paragraphs(HEAD),
        "",
        _row(["broker", "version", "compared with", *levels]),
        _row(["---"] * (len(levels) + 3)),
    ]
    for name, one in results.items():
        out.append(
            _row([name, one["version"], one["compared"], *(_cell(one["levels"].get(level)) for level in levels)])
        )
    out += ["", "## What differed", ""]
    out += [_differences(name, one) for name, one in results.items()]
    out += ["", *paragraphs(LEFT_OUT), "", "## Kafka's system tests", "", *_system(system_tests)]
    return "\n".join(map(wrapped, out)) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |" if cells[0] != "---" else "|" + "---|" * len(cells)


def _cell(counts: Mapping[str, int] | None) -> str:
    passed = sum((counts or {}).get(state, 0) for state in ("passed", "flaky"))
    played = passed + (counts or {}).get("failed", 0)
    return f"{passed}/{played}" if played else "–"


def _differences(name: str, one: Mapping[str, Any]) -> str:
    failed, skipped = one["failed"], sum(one["skipped"].values())
    shown = ", ".join(f"`{story}`" for story in failed[:SHOWN])
    more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    text = f"{len(failed)} differ: {shown}{more}" if failed else "nothing differs"
    causes = "; ".join(f"{count} begin with `{words}`" for words, count in one.get("often", {}).items())
    most = f" Of these {causes}." if causes else ""
    if one.get("ended"):
        most += f" A request ended it in: {', '.join(one['ended'])}."
    return f"* **{name}** ({one['date']}, {one['seconds']} s): {text}.{most} {skipped} were not played."


def _system(system_tests: Mapping[str, Any]) -> list[str]:
    tests = system_tests["tests"]
    counts = Counter(one["needs"] for one in tests)
    out = [
        "Brokers are often measured by Kafka's own system tests (`tests/kafkatest`, with ducktape on many machines). "
        f"At commit `{system_tests['commit'][:10]}` ({system_tests['version']}) there are {len(tests)}. "
        "They start Apache Kafka's processes by ssh, so they were not run here. They are counted by what they need:",
        "",
        "| what a test needs | tests | on Muster |",
        "|---|---|---|",
    ]
    out += [f"| {text} | {counts[need]} | {system_tests['muster'][need]} |" for need, text in NEEDS.items()]
    return out


def write() -> None:
    """Write the page."""
    PAGE.write_text(_now(), encoding="utf-8")


def _now() -> str:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return page(results, json.loads(SYSTEM_TESTS.read_text(encoding="utf-8")))


def main() -> int:
    """Write the page, or check that it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        return int(PAGE.read_text(encoding="utf-8") != _now())
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
