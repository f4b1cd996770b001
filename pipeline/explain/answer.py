"""Why a group rebalanced: its verdict, each rebalance in a time, and the advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.pipeline.episodes.share_facts import Delivery
from muster.pipeline.episodes.share_trouble import delivery_words
from muster.pipeline.explain.inputs import Log, inputs_of
from muster.pipeline.frames import DataFrame, F, in_this_process
from muster.pipeline.report.formatting import sure_words, why
from muster.pipeline.report.groups import advised, is_hiding
from muster.pipeline.report.story import rebalance_cost
from muster.pipeline.schema import SOURCE_EVENTS
from muster.pipeline.tables.build import build
from muster.pipeline.tables.epoch_states import NOT_REPLAYED, SHARE
from muster.pipeline.tables.inputs import Inputs
from muster.pipeline.wanted import Wanted
from muster.pipeline.whatif.job import what_if
from muster.pipeline.wording import duration, moment, plural

Row = Mapping[str, Any]
HIDDEN: Final = "a setting would only hide that a member ends again and again"
NO_REPLAY: Final = "the what-if does not replay share groups and streams groups"
DELIVERIES: Final = "how deliveries ended"
"""The begin of a note about the state log."""
MAX_DELIVERIES: Final = 20
"""The largest number of rows of the table `deliveries` in an answer in words. The newest rows are shown."""
MAX_TASKS: Final = 10
"""The largest number of tasks in an answer in words: those that nobody had for the longest time."""
_UNOWNED_MS: Final = 1_000
"""A shorter time without an owner is not worth a line."""
_TABLES: Final = ("memberships", "rebalances", "verdicts", "commits", "silences", "deliveries", "tasks")


class Span(NamedTuple):
    """The requested time, in ms since 1970."""

    since_ms: int
    until_ms: int
    margin_ms: int
    """How long before `since_ms` the log is read. So the members at `since_ms` are known."""


class Answer(NamedTuple):
    """The answer about one group."""

    group: str
    span: Span
    verdict: Row
    """The group's row of the table `verdicts`."""
    rebalances: tuple[Row, ...]
    """The group's rows of the table `rebalances` in the time, in their order."""
    advice: Row | None
    """The group's row of the table `advice`, if the page would show it (`report.groups.advised`)."""
    unadvised: str | None
    """Why no change of a setting is advised."""
    notes: tuple[str, ...]
    """What is not known."""
    deliveries: tuple[Row, ...] = ()
    """The group's rows of the table `deliveries` in the time, in their order."""
    tasks: tuple[Row, ...] = ()
    """The group's rows of the table `tasks` in the time, in the order of their starts."""


def answer(log: Log, group: str, span: Span, notes: Sequence[str] = ()) -> Answer | None:
    """Why a group rebalanced in a time; None: the log has nothing of the group in this time. `notes`: what was not
    read.
    """
    with in_this_process():
        inputs = inputs_of(log, Wanted(span.since_ms - span.margin_ms, span.until_ms))
        of_all = build(inputs, _TABLES)
        facts = {name: _of_group(rows, group) for name, rows in of_all.items() if name != "silences"}
        verdict = next(_rows(facts["verdicts"]), None)
        if verdict is None:
            return None
        own = _inputs_of_group(inputs, group)
        advised = what_if(
            own,
            memberships=facts["memberships"],
            rebalances=facts["rebalances"],
            commits=facts["commits"],
            silences=of_all["silences"],
        )
        advice = next(_rows(advised["advice"]), None)
        fidelity = next(_rows(advised["fidelity"]), None)
        is_other, is_shared = _is_of(own, *NOT_REPLAYED), _is_of(own, SHARE)
    rebalances = sorted(_rows(facts["rebalances"]), key=lambda row: (row["end_ms"] or 0, row["generation"] or 0))
    in_time = tuple(row for row in rebalances if (row["end_ms"] or 0) >= span.since_ms)
    unadvised = None if advice is not None or fidelity is None else fidelity["unadvised"]
    if is_other:
        unadvised = NO_REPLAY
    delivered = sorted(_rows(facts["deliveries"]), key=lambda row: (row["from_ms"], row["first_offset"]))
    again = tuple(row for row in delivered if row["until_ms"] >= span.since_ms)
    tasks = sorted(_rows(facts["tasks"]), key=lambda row: (row["start_ms"], row["subtopology"], row["partition"]))
    held = tuple(row for row in tasks if row["end_ms"] is None or row["end_ms"] >= span.since_ms)
    if advice is not None and is_hiding(verdict["claims"]):
        advice, unadvised = None, HIDDEN
    return Answer(
        group,
        span,
        verdict,
        in_time,
        advice,
        unadvised,
        (*_notes(inputs, in_time), *_of_states(inputs, notes, is_shared=is_shared), *notes),
        again,
        held,
    )


def _is_of(inputs: Inputs, *types: str) -> bool:
    epochs = inputs.epochs
    return epochs is not None and not epochs.where(F.col("protocol_type").isin(*types)).isEmpty()


def _of_group(rows: DataFrame, group: str) -> DataFrame:
    return rows.where(F.col("group") == group)


def _rows(rows: DataFrame) -> Iterator[Row]:
    return iter(rows.toArrow().to_pylist())


def _inputs_of_group(inputs: Inputs, group: str) -> Inputs:
    return inputs._replace(
        decoded=_of_group(inputs.decoded, group),
        events=None if inputs.events is None else _of_group(inputs.events, group),
        epochs=None if inputs.epochs is None else _of_group(inputs.epochs, group),
        states=None,
    )


def _notes(inputs: Inputs, rebalances: tuple[Row, ...]) -> Iterator[str]:
    inferred = [row for row in rebalances if row["source"] != SOURCE_EVENTS]
    if inferred:
        yield "causes and times are inferred from the offsets log: __group_events is not there, or may not be read"
    if any(row["before_generation"] is None for row in inferred):
        yield "the state before the first rebalance is not in the log that was read"
    if inputs.ends is None and not inputs.shares.ends:
        yield "the lag: the ends of the topics are not there, or need the right DESCRIBE for the group and its topics"


def _of_states(inputs: Inputs, notes: Sequence[str], *, is_shared: bool) -> Iterator[str]:
    if is_shared and inputs.shares.raw is None and not any(note.startswith(DELIVERIES) for note in notes):
        yield f"{DELIVERIES}: __share_group_state is not there, or may not be read"


def text_of(found: Answer) -> Iterator[str]:
    """The answer as sentences."""
    verdict, span = found.verdict, found.span
    yield f"group {found.group}: {verdict['verdict']}"
    for _, advice in advised({**verdict, "advice": None}):
        yield f"what to do: {advice}"
    count = plural(len(found.rebalances), "rebalance")
    yield f"{count} from {moment(span.since_ms)} to {moment(span.until_ms)} UTC"
    for row in found.rebalances:
        yield f"  {_when(row)}  {'; '.join(part for part in (why(row), sure_words(row), rebalance_cost(row)) if part)}"
    if found.deliveries:
        yield f"{plural(len(found.deliveries), 'time')} in which records were delivered again, or given up"
    for row in found.deliveries[-MAX_DELIVERIES:]:
        words = delivery_words(Delivery(**{name: row[name] for name in Delivery._fields}))
        yield f"  {moment(row['from_ms'])}  {words}"
    unowned = [row for row in found.tasks if (row["unowned_ms"] or 0) >= _UNOWNED_MS]
    if unowned:
        yield f"{plural(len(unowned), 'time')} in which nobody had a task"
    for row in sorted(unowned, key=lambda row: -row["unowned_ms"])[:MAX_TASKS]:
        task, who = _task_and_owner(row)
        yield f"  {moment(row['start_ms'])}  task {task} after {duration(row['unowned_ms'])}: {who} got it"
    restored = [row for row in found.tasks if row["restored_ms"] is not None]
    if restored:
        yield f"{plural(len(restored), 'time')} in which a member restored the state of a task"
    for row in sorted(restored, key=lambda row: -row["restored_ms"])[:MAX_TASKS]:
        task, who = _task_and_owner(row)
        took = f"it took at most {duration(row['restored_ms'])}"
        yield f"  {moment(row['start_ms'])}  {row['role']} task {task} at {who}: {took}"
    if found.advice is not None:
        yield f"one change: {found.advice['sentence']}"
    elif found.unadvised:
        yield f"no change of a setting is advised: {found.unadvised}"
    for note in found.notes:
        yield f"not known: {note}" if not note.startswith("causes") else f"note: {note}"


def _task_and_owner(row: Row) -> tuple[str, str]:
    return f"{row['subtopology']}_{row['partition']}", row["client_id"] or row["member_id"]


def _when(row: Row) -> str:
    """The start of a rebalance, or its end if the start is not known."""
    return moment(row["end_ms"] if row["start_ms"] is None else row["start_ms"])


def json_of(found: Answer) -> dict[str, Any]:
    """The answer as a value of JSON."""
    return {
        "group": found.group,
        "since_ms": found.span.since_ms,
        "until_ms": found.span.until_ms,
        "read_since_ms": found.span.since_ms - found.span.margin_ms,
        "level": found.verdict["level"],
        "verdict": found.verdict["verdict"],
        "claims": found.verdict["claims"],
        "rebalances": found.rebalances,
        "deliveries": found.deliveries,
        "tasks": found.tasks,
        "advice": found.advice,
        "unadvised": found.unadvised,
        "notes": found.notes,
    }
