"""Makes all tables from one set of inputs. Nothing is computed before a table is read or written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from muster.pipeline.frames import DataFrame, F, empty
from muster.pipeline.schema import MALFORMED, OFFSETS_TOPIC, UNKNOWN
from muster.pipeline.tables import keep, share_states, stream_states, table
from muster.pipeline.tables.commits import placed, walk_of
from muster.pipeline.tables.episodes import (
    ShareTables,
    StreamTables,
    episodes_and_verdicts,
    share_tables_of,
    stream_tables_of,
)
from muster.pipeline.tables.epoch_states import SHARE, takes_of
from muster.pipeline.tables.flapping import flapping
from muster.pipeline.tables.generations import balance, generations, holders, ownership
from muster.pipeline.tables.inferred_rebalances import epoch_rebalances, inferred, without_conversions
from muster.pipeline.tables.inputs import Inputs, states
from muster.pipeline.tables.lag import lag, progress
from muster.pipeline.tables.memberships import memberships, static_candidates, stays
from muster.pipeline.tables.rebalances import changes, moves, rebalances
from muster.pipeline.tables.regressions import fenced, regressions
from muster.pipeline.tables.schema import TABLES, conform
from muster.pipeline.tables.share_states import ShareInputs, malformed_states, share_tables, signs_of_life, with_locks
from muster.pipeline.tables.silences import silences
from muster.pipeline.tables.skips import skips
from muster.pipeline.tables.stalls import stalls
from muster.pipeline.tables.stream_states import stream_tables
from muster.pipeline.tables.transactions import NOTHING, TransactionInputs, malformed_transactions, transactions


def build(inputs: Inputs, names: Collection[str] | None = None) -> dict[str, DataFrame]:
    """The tables by their names, each with the schema of tables.schema.TABLES.

    `names`: the tables to plan (None: all of MADE).
    """
    facts = _Facts(inputs)
    return {name: facts[name] for name in MADE if names is None or name in names}


def unusable(
    decoded: DataFrame,
    malformed_events: DataFrame | None,
    of_transactions: TransactionInputs = NOTHING,
    of_shares: ShareInputs = share_states.NOTHING,
) -> dict[str, DataFrame]:
    """The tables `malformed` and `unknown`.

    `malformed` also has the malformed rows of `__group_events`, of `__share_group_state`, and about transactions.
    """
    rows = {kind: table(decoded, kind).withColumn("log_topic", F.lit(OFFSETS_TOPIC)) for kind in (MALFORMED, UNKNOWN)}
    found = {kind: conform(some, kind) for kind, some in rows.items()}
    if malformed_events is not None:
        found[MALFORMED] = found[MALFORMED].unionByName(malformed_events)
    for bad in (malformed_transactions(of_transactions), malformed_states(of_shares)):
        if bad is not None:
            found[MALFORMED] = found[MALFORMED].unionByName(bad)
    return found


class _Facts:
    """The tables, and the intermediate tables that several of them read. Each is planned when it is first needed."""

    def __init__(self, inputs: Inputs) -> None:
        # Python makes the epochs, and nearly every table needs both the decoded rows and the epochs
        known = inputs if inputs.epochs is None else inputs._replace(epochs=keep(inputs.epochs))
        self.inputs = known._replace(states=keep(states(known)))
        self._planned: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._planned:
            self._planned[name] = (_TABLES.get(name) or _STARTS[name])(self)
        return self._planned[name]

    def episodes_or_verdicts(self, name: str) -> DataFrame:
        """The table `episodes` or the table `verdicts`: one step makes both."""
        if name not in self._planned:
            judge = partial(episodes_and_verdicts, shares=self._share_tables(), streams=self._stream_tables())
            self._planned |= judge(*(self[table] for table in _OF_EPISODES))
        return self._planned[name]

    def _share_tables(self) -> ShareTables | None:
        if self.inputs.shares.raw is None:
            return None
        return share_tables_of({name: self[name] for name in (*share_states.MADE, "ownership")})

    def _stream_tables(self) -> StreamTables | None:
        return stream_tables_of({name: self[name] for name in stream_states.MADE}) if self.inputs.has_streams else None

    def of_shares(self, name: str) -> DataFrame:
        """A table about the deliveries of share groups. One step makes all of them."""
        if name not in self._planned:
            made = share_tables(self.inputs.shares)
            known = self.inputs.decoded
            self._planned |= {one: empty(TABLES[one], known) for one in share_states.MADE} if made is None else made
            self._planned["deliveries"] = with_locks(self._planned["deliveries"], self.inputs.events)
        return self._planned[name]

    def of_streams(self, name: str) -> DataFrame:
        """A table about the tasks of streams groups. One step makes both."""
        if name not in self._planned:
            known = self.inputs
            nothing = {one: empty(TABLES[one], known.decoded) for one in stream_states.MADE}
            self._planned |= stream_tables(known) if known.has_streams else nothing
        return self._planned[name]

    def since(self, rows: DataFrame, when: str) -> DataFrame:
        """The rows from the requested time on. `when` is their time."""
        since_ms = self.inputs.since_ms
        return rows if since_ms is None else rows.where(rows[when] >= since_ms)

    def fenced(self) -> DataFrame | None:
        """The producers that newer producers replaced. None: the source does not say which producer made a commit."""
        return None if self.inputs.transactions.parts is None else fenced(self["transactions"])


def _rebalances(of: _Facts) -> DataFrame:
    happened = rebalances(of["concluded"], of["changed"], of.inputs.events)
    return keep(of.since(happened, "end_ms"))


def _every_silence(of: _Facts) -> DataFrame:
    known = of.inputs.silences
    return keep(silences(of["walk"], stays(of["generations"]), _others(of.inputs))) if known is None else known


def _concluded(of: _Facts) -> DataFrame:
    concluded = inferred(of.inputs, of["walk"], of["every silence"])
    if of.inputs.epochs is not None:
        every = states(of.inputs)
        concluded = without_conversions(concluded, every)
        concluded = concluded.unionByName(epoch_rebalances(of.inputs.epochs, every, of["walk"], of["every silence"]))
    return keep(concluded)


def _with_single_owners(generations: DataFrame) -> DataFrame:
    """The generations of groups in which a partition has one owner at a time: no share groups."""
    return generations.where(F.coalesce("protocol_type", F.lit("")) != SHARE)


def _others(inputs: Inputs) -> DataFrame | None:
    """Signs of life that are no commits of wanted groups."""
    others, states = inputs.others, inputs.shares.raw
    if states is None:
        return others
    signs = signs_of_life(states, "timestamp_ms")
    return signs if others is None else signs.unionByName(others.select(*signs.columns))


def _changed(of: _Facts) -> DataFrame:
    epochs = of.inputs.epochs
    return of.since(changes(of["held by"], None if epochs is None else takes_of(epochs)), "time_ms")


_OF_EPISODES: Final = (
    "rebalances", "memberships", "generations", "walk", "flapping", "silences", "stalls", "regressions", "progress",
    "skips", "lag",
)  # fmt: skip
"""The tables that episodes and verdicts are made from."""
_Plans = Mapping[str, Callable[[_Facts], DataFrame]]

_TABLES: Final[_Plans] = {
    "commits": lambda of: conform(of["placed"], "commits"),
    # this table is small compared with the commits, and nearly every table reads it
    "generations": lambda of: keep(generations(of.inputs)),
    "memberships": lambda of: keep(memberships(of["generations"], of["concluded"], of.inputs.events)),
    "ownership": lambda of: ownership(of["held by"], of.inputs.epochs),
    "rebalances": _rebalances,
    "moves": lambda of: moves(of["changed"], of["rebalances"]),
    "balance": lambda of: balance(_with_single_owners(of["generations"])),
    "regressions": lambda of: keep(regressions(of["walk"])),
    "skips": lambda of: keep(skips(of["walk"])),
    "silences": lambda of: of.since(of["every silence"], "until_ms"),
    "stalls": lambda of: keep(stalls(of["walk"], of["ownership"], of["silences"])),
    "lag": lambda of: lag(of["walk"]),
    "progress": lambda of: progress(of["walk"]),
    "flapping": lambda of: flapping(of["rebalances"], of["generations"], of["walk"]),
    "static_candidates": lambda of: static_candidates(of["memberships"], of["generations"]),
    "episodes": lambda of: of.episodes_or_verdicts("episodes"),
    "verdicts": lambda of: of.episodes_or_verdicts("verdicts"),
    **{name: partial(_Facts.of_shares, name=name) for name in share_states.MADE},
    **{name: partial(_Facts.of_streams, name=name) for name in stream_states.MADE},
    "transactions": lambda of: keep(transactions(of.inputs.transactions, of.inputs.decoded)),
}
_STARTS: Final[_Plans] = {
    "placed": lambda of: placed(of["walk"]),
    # with the commits this table is as long as the log, but most tables read it
    "walk": lambda of: keep(walk_of(of.inputs, of.fenced())),
    "every silence": _every_silence,
    "concluded": _concluded,
    "held by": lambda of: keep(holders(_with_single_owners(of["generations"]))),
    "changed": _changed,
}
"""The intermediate tables that several tables read."""
MADE: Final = tuple(_TABLES)
"""The names of the tables that are made here, in the best order for making them."""
