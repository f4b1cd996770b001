"""`muster transactions history`: the timeline of a transactional id."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from muster.cli.output import say
from muster.cli.table import print_json
from muster.cli.transactions.groups import Groups
from muster.client.connection import AskingFailed
from muster.client.event_reader import OF_TRANSACTIONS, Events, Value
from muster.client.kafka_client import Cluster
from muster.coordinator.history.transaction_timeline import TransactionTimeline
from muster.coordinator.system.clock import read_wall


def history(cluster: Cluster, name: str, *, as_json: bool, everything: bool, last: int | None) -> int:
    """Print the history of a transactional id; exit status 1 when nothing is known of it."""
    values: Iterable[Value] = Events(cluster, OF_TRANSACTIONS).upto_now(name)
    if last is not None:
        values = deque(values, last)
    values = list(values)
    if not values:
        raise AskingFailed(
            f"there is no history of a transactional id {name}: no producer has used it since its events are kept; "
            "muster transactions list shows the ids that there are"
        )
    if as_json:
        for value in values:
            print_json(value)
        return 0
    timeline = TransactionTimeline(everything=everything, groups=Groups(cluster, values).of)
    for value in values:
        for line in timeline.feed(value):
            say(line)
    for line in timeline.end(read_wall("now")):
        say(line)
    return 0
