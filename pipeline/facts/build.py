"""All tables of facts from one set of inputs. Lazy: nothing is computed before a table is read or written."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame

from muster.pipeline.facts.balance import balance
from muster.pipeline.facts.commits import in_order, placed
from muster.pipeline.facts.epoch_rebalances import epoch_rebalances, without_conversions
from muster.pipeline.facts.epoch_states import takes_of
from muster.pipeline.facts.flapping import flapping
from muster.pipeline.facts.generations import generations
from muster.pipeline.facts.inferred_rebalances import inferred
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
from muster.pipeline.persist import keep

MADE: Final = (
    "commits",
    "generations",
    "memberships",
    "ownership",
    "rebalances",
    "moves",
    "balance",
    "regressions",
    "stalls",
    "lag",
    "flapping",
    "static_candidates",
)
"""The tables that are made here, in the best order to make them."""


def build(inputs: Inputs, names: Collection[str] = MADE) -> dict[str, DataFrame]:
    """The tables by name, each as facts.schema.TABLES says. `names`: only these are planned. AttributeError for one
    that is not in MADE.
    """
    facts = _Facts(inputs)
    return {name: getattr(facts, name) for name in MADE if name in names}


class _Facts:
    """Each table, and what several of them start from, is planned when it is first asked for."""

    def __init__(self, inputs: Inputs) -> None:
        if inputs.epochs is not None:
            # made by Python, and asked for by nearly everything
            inputs = inputs._replace(epochs=keep(inputs.epochs))
        self._inputs = inputs

    @cached_property
    def commits(self) -> DataFrame:
        return conform(self._placed, "commits")

    @cached_property
    def generations(self) -> DataFrame:
        # small beside the commits, and the start of nearly everything
        return keep(generations(self._inputs))

    @cached_property
    def memberships(self) -> DataFrame:
        return keep(memberships(self.generations, self._concluded, self._inputs.events))

    @cached_property
    def ownership(self) -> DataFrame:
        return ownership(self._held_by, self._inputs.epochs)

    @cached_property
    def rebalances(self) -> DataFrame:
        happened = rebalances(self._concluded, self._changed, self._inputs.events, self.generations)
        return keep(self._since(happened, "end_ms"))

    @cached_property
    def moves(self) -> DataFrame:
        return moves(self._changed, self.rebalances)

    @cached_property
    def balance(self) -> DataFrame:
        return balance(self.generations)

    @cached_property
    def regressions(self) -> DataFrame:
        return regressions(self.commits)

    @cached_property
    def stalls(self) -> DataFrame:
        return stalls(self.commits, self._inputs.ends)

    @cached_property
    def lag(self) -> DataFrame:
        return lag(self.commits, self._inputs.ends)

    @cached_property
    def flapping(self) -> DataFrame:
        return flapping(self.rebalances, self.generations, self.commits)

    @cached_property
    def static_candidates(self) -> DataFrame:
        return static_candidates(self.memberships, self.rebalances, self.generations)

    # ---- what they start from

    @cached_property
    def _placed(self) -> DataFrame:
        # as long as the log, but five tables start from it, and to order it again costs more than to keep it
        return keep(in_order(placed(self._inputs)))

    @cached_property
    def _concluded(self) -> DataFrame:
        concluded = inferred(self._inputs, self._placed)
        if self._inputs.epochs is not None:
            every = states(self._inputs)
            concluded = without_conversions(concluded, every)
            concluded = concluded.unionByName(epoch_rebalances(self._inputs.epochs, every, self._placed))
        return keep(concluded)

    @cached_property
    def _held_by(self) -> DataFrame:
        return keep(holders(self.generations))

    @cached_property
    def _changed(self) -> DataFrame:
        epochs = self._inputs.epochs
        return self._since(changes(self._held_by, None if epochs is None else takes_of(epochs)), "time_ms")

    def _since(self, rows: DataFrame, when: str) -> DataFrame:
        """Without what happened before the time that is asked for."""
        since_ms = self._inputs.since_ms
        return rows if since_ms is None else rows.where(rows[when] >= since_ms)
