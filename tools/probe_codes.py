"""Record which error codes a Kafka answers to each probe, and add them to conform/probes/codes.json.

    python -m tools.probe_codes HOST:PORT [--new]

Run it on a fresh broker of each release, several times. A different answer is kept as another right one. `--new`
begins an empty file.
"""

from __future__ import annotations

import asyncio
import json
import sys

from muster.conform.probes import all_probes, asking, codes, scene
from muster.conform.probes.link import plain
from muster.conform.probes.running import Runner
from muster.conform.results import State


async def recorded(host: str, port: int) -> dict[str, codes.Codes]:
    """The codes of each answer, by the probe's id."""
    asker = asking.Asker(lambda: plain(host, port), await asking.advertised(lambda: plain(host, port)))
    place, why = await scene.prepare(asker)
    if why:
        raise SystemExit(why)
    runner = Runner(asker, place, compares=False)
    outcomes = await runner.run(all_probes(asker.advertised, may_alter=True))
    left = await scene.clean(asker, place)
    for one in outcomes:
        if one.state in (State.FAILED, State.FLAKY):
            print(f"{one.state}: {one.id}: {one.diff or one.why}")
    print(f"{len(outcomes)} probes; left: {left}")
    return runner.codes


def merged(known: dict[str, list[codes.Codes]], found: dict[str, codes.Codes]) -> dict[str, list[codes.Codes]]:
    """The known answers, with those that are new."""
    out = {name: list(answers) for name, answers in known.items()}
    for name, answer in found.items():
        if answer not in out.setdefault(name, []):
            out[name].append(answer)
    return dict(sorted(out.items()))


def main(arguments: list[str]) -> int:
    """Record one broker."""
    host, _, port = arguments[0].rpartition(":")
    known = {} if "--new" in arguments else codes.RECORDED
    rows = merged(known, asyncio.run(recorded(host, int(port))))
    text = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(answers, separators=(',', ':'))}" for name, answers in rows.items()
    )
    codes.FILE.write_text("{\n" + text + "\n}\n")
    print(f"{sum(len(one) > 1 for one in rows.values())} of {len(rows)} probes have several answers that are right")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
