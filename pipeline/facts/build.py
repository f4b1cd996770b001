"""All tables of facts from one set of inputs. Lazy: nothing is computed before a table is read or written."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from muster.pipeline.facts.generations import generations
from muster.pipeline.facts.inferred import inferred
from muster.pipeline.facts.inputs import Inputs
from muster.pipeline.facts.memberships import memberships
from muster.pipeline.facts.moves import changes, moves
from muster.pipeline.facts.ownership import holders, ownership
from muster.pipeline.facts.rebalances import rebalances


def build(inputs: Inputs) -> dict[str, DataFrame]:
    """The tables by name, each as facts.schema.TABLES says."""
    # small beside the commits, and the start of nearly everything
    known = generations(inputs).persist(StorageLevel.MEMORY_AND_DISK)
    concluded = inferred(inputs).persist(StorageLevel.MEMORY_AND_DISK)
    held_by = holders(known).persist(StorageLevel.MEMORY_AND_DISK)
    changed = changes(held_by)
    happened = rebalances(concluded, changed, inputs.events).persist(StorageLevel.MEMORY_AND_DISK)
    return {
        "generations": known,
        "memberships": memberships(known, concluded, inputs.events),
        "ownership": ownership(held_by),
        "rebalances": happened,
        "moves": moves(changed, happened),
    }
