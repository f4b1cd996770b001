"""All tables of facts from one set of inputs. Lazy: nothing is computed before a table is read or written."""

from __future__ import annotations

from pyspark.sql import DataFrame

from muster.pipeline.facts.balance import balance
from muster.pipeline.facts.commits import in_order, placed
from muster.pipeline.facts.epoch_owners import takes_of
from muster.pipeline.facts.epoch_rebalances import epoch_rebalances, without_conversions
from muster.pipeline.facts.flapping import flapping
from muster.pipeline.facts.generations import generations
from muster.pipeline.facts.inferred import inferred
from muster.pipeline.facts.inputs import Inputs, states
from muster.pipeline.facts.lag import lag
from muster.pipeline.facts.memberships import memberships
from muster.pipeline.facts.moves import changes, moves
from muster.pipeline.facts.ownership import holders, ownership
from muster.pipeline.facts.rebalances import rebalances
from muster.pipeline.facts.regressions import regressions
from muster.pipeline.facts.schema import conform
from muster.pipeline.facts.stalls import stalls
from muster.pipeline.facts.static_candidates import static_candidates
from muster.pipeline.keep import keep


def _since(inputs: Inputs, rows: DataFrame, when: str) -> DataFrame:
    """Without what happened before the time that is asked for."""
    return rows if inputs.since_ms is None else rows.where(rows[when] >= inputs.since_ms)


def build(inputs: Inputs) -> dict[str, DataFrame]:
    """The tables by name, each as facts.schema.TABLES says."""
    if inputs.epochs is not None:
        # made by Python, and asked for by nearly everything
        inputs = inputs._replace(epochs=keep(inputs.epochs))
    # small beside the commits, and the start of nearly everything
    known = keep(generations(inputs))
    # as long as the log, but five tables start from it, and to order it again costs more than to keep it
    placed_rows = keep(in_order(placed(inputs)))
    committed = conform(placed_rows, "commits")
    concluded = inferred(inputs, placed_rows)
    if inputs.epochs is not None:
        every = states(inputs)
        concluded = without_conversions(concluded, every)
        concluded = concluded.unionByName(epoch_rebalances(inputs.epochs, every, placed_rows))
    concluded = keep(concluded)
    held_by = keep(holders(known))
    changed = changes(held_by, None if inputs.epochs is None else takes_of(inputs.epochs))
    changed = _since(inputs, changed, "time_ms")
    happened = keep(_since(inputs, rebalances(concluded, changed, inputs.events, known), "end_ms"))
    who_stayed = keep(memberships(known, concluded, inputs.events))
    return {
        "commits": committed,
        "generations": known,
        "memberships": who_stayed,
        "ownership": ownership(held_by, inputs.epochs),
        "rebalances": happened,
        "moves": moves(changed, happened),
        "balance": balance(known),
        "regressions": regressions(committed),
        "stalls": stalls(committed, inputs.ends),
        "lag": lag(committed, inputs.ends),
        "flapping": flapping(happened, known, committed),
        "static_candidates": static_candidates(who_stayed, happened, known),
    }
