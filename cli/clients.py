"""`muster clients` shows what clients say of themselves: the metrics that they have pushed (KIP-714)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.cli.output import print_json, print_rows, print_table, say
from muster.cli.running_server import with_client
from muster.client.connection import RequestFailed, sentence
from muster.client.kafka_client import KafkaClient
from muster.coordinator.history.words import seconds, short
from muster.coordinator.system.wall_time import wall_now_ms
from muster.coordinator.telemetry.reports import ALL, CONFIG
from muster.protocol.api import ApiKey
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

CLIENT_METRICS: Final = 16
"""ConfigResource.Type.CLIENT_METRICS."""
NONE_PUSHED: Final = "no client has pushed metrics: kafka-client-metrics.sh --alter says which metrics, and how often"
Report = Mapping[str, Any]


def reports(client: KafkaClient, name: str = ALL) -> list[Report] | None:
    """The newest report of each client; for an id, with its series. None means that no node keeps reports.

    Raises RequestFailed.
    """
    found: dict[str, Report] = {}
    is_kept = False
    row = DescribeConfigsResource(CLIENT_METRICS, name, [CONFIG])
    for node in client.every_node():
        (result,) = node.ask(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([row])).results
        if result.error_code:
            raise RequestFailed(f"{node.address}: {sentence(result.error_code, result.error_message)}")
        for config in result.configs:
            is_kept = True
            for one in json.loads(config.value):
                before = found.get(one["id"])
                if before is None or before["pushed_ms"] < one["pushed_ms"]:
                    found[one["id"]] = one
    return [*found.values()] if is_kept else None


def reports_of_members(client: KafkaClient) -> dict[tuple[str, str], Report]:
    """The reports of members by group and member id. Servers that keep none, or that refuse, have no reports."""
    try:
        found = reports(client) or []
    except RequestFailed:
        return {}
    return {(one["group"], one["member"]): one for one in found if one["group"] and one["member"]}


def _kept_reports(client: KafkaClient, name: str = ALL) -> list[Report]:
    found = reports(client, name)
    if found is None:
        raise RequestFailed(
            f"{client.address} keeps no metrics of clients: it is not Muster, or "
            "muster.client.telemetry.enable=false is set"
        )
    return found


@with_client()
def run_list(client: KafkaClient, options: argparse.Namespace) -> int:
    """Print the clients that have pushed metrics."""
    found = sorted(_kept_reports(client), key=lambda one: (one["group"] or "", one["client_id"], one["id"]))
    if options.json:
        for one in found:
            print_json(one)
    elif not found:
        say(NONE_PUSHED)
    else:
        head = ("ID", "CLIENT", "SOFTWARE", "HOST", "GROUP", "MEMBER", "LAST PUSH")
        columns = ("id", "client_id", "software", "host", "group")
        rows = [(*[one[name] for name in columns], short(one["member"] or ""), _ago(one)) for one in found]
        print_rows(head, rows, as_json=False)
    return 0


@with_client()
def run_describe(client: KafkaClient, options: argparse.Namespace) -> int:
    """Print the metrics of the clients with this client instance id or client.id. Exit status 1: there is no such."""
    ids = [one["id"] for one in _kept_reports(client) if options.id in (one["id"], one["client_id"])]
    if not ids:
        raise RequestFailed(f"no client {options.id} has pushed metrics: muster clients list shows those that have")
    for number, instance_id in enumerate(ids):
        for one in _kept_reports(client, instance_id):
            if options.json:
                print_json(one)
                continue
            if number:
                say("")
            print_report(one)
    return 0


def print_report(one: Report) -> None:
    """Print one report: who the client is, its figures, and all its series."""
    state = ", and has ended" if one["has_ended"] else ""
    who = f"client {one['client_id']} ({one['software']}, {one['host']})"
    say(f"{who}: last push {_ago(one)} ago{state}, id {one['id']}")
    if one["group"]:
        member = f", member {one['member']}" if one["member"] else ""
        say(f"group {one['group']}{member}")
    if one["figures"]:
        say(figure_words(one["figures"]))
    print_table(("METRIC", "VALUE"), [(name, f"{value:.6g}") for name, value in sorted(one["series"].items())])
    if one["is_cut"]:
        say("the client has pushed more series than are kept")


def says(member: str, one: Report) -> str:
    """A sentence about a member, from its own figures."""
    return f"{short(member)} says, {_ago(one)} ago: {figure_words(one['figures'])}"


def figure_words(figures: Mapping[str, float]) -> str:
    """The figures in words."""
    parts = [words.replace("{}", show(figures[name])) for name, (words, show) in _WORDS.items() if name in figures]
    return ", ".join(parts)


def _ms(value: float) -> str:
    return seconds(round(value))


_WORDS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "last_poll_s": ("last poll {} before", lambda value: _ms(value * 1_000)),
    "poll_interval_max_ms": ("at most {} between polls", _ms),
    "heartbeats_per_s": ("{} heartbeats a second", lambda value: f"{value:.2f}"),
    "rebalance_latency_max_ms": ("a rebalance took {} at most", _ms),
    "failed_rebalances": ("failed rebalances: {}", lambda value: f"{value:.0f}"),
}


def _ago(one: Report) -> str:
    return seconds(max(wall_now_ms() - int(one["pushed_ms"]), 0))
