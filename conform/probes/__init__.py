"""Raw protocol probes. Each version of each API is sent as bytes, and its answer is read by Kafka's own definition.

`catalogue` finds the probes of a target. `forms` and `*_bodies` make their requests, and `judge` reads the answers.
`frames` has the probes of what is below the messages. `run_probes` is for others.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.conform.probes import scene
from muster.conform.probes.asking import Asker
from muster.conform.probes.catalogue import Versions, probes
from muster.conform.probes.frames import PROBES
from muster.conform.probes.link import Dial
from muster.conform.probes.running import AnyProbe, Runner
from muster.conform.results import Outcome


def all_probes(advertised: Versions, *, may_alter: bool = False) -> list[AnyProbe]:
    """Every probe of a target that advertises these versions, by the keys of APIs."""
    return [*PROBES, *probes(advertised, may_alter=may_alter)]


async def run_probes(
    dial: Dial,
    advertised: Versions,
    *,
    may_alter: bool = False,
    prefix: str | None = None,
    done: Callable[[Outcome], object] | None = None,
) -> tuple[list[Outcome], list[str]]:
    """The outcomes of all probes; and what was made and could not be deleted.

    `dial` opens a connection that is ready for requests. `done` is called with each outcome as soon as it is known.
    """
    asker = Asker(dial, advertised)
    place, why = await scene.prepare(asker, prefix)
    try:
        outcomes = await Runner(asker, place, compares=not why).run(all_probes(advertised, may_alter=may_alter), done)
    finally:
        left = await scene.clean(asker, place)
    return outcomes, left
