"""The reference of properties: Muster's own, Kafka's that have an effect here, and those of topics and groups."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping

from muster.coordinator.config import Config, load
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.history.event_writer import HistorySettings
from muster.coordinator.log.settings import LogSettings
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.properties.definition import Property
from muster.coordinator.properties.lookup import BROKER, CLIENT_METRICS, GROUP, MUSTER, TOPIC, documentation
from muster.coordinator.runtime.group_coordinator.settings import ShardSettings
from muster.coordinator.runtime.share_coordinator.settings import ShareShardSettings
from muster.coordinator.server.nodes.common import LeadershipSettings
from muster.coordinator.share_state.core import ShareStateSettings
from muster.coordinator.telemetry.reports import TelemetrySettings
from muster.coordinator.topics.settings import TopicSettings
from muster.coordinator.transactions.commands import TransactionSettings

ROOMS = (
    *(LeadershipSettings, GroupSettings, LogSettings, NetSettings, HistorySettings, ShardSettings),
    *(TopicSettings, TelemetrySettings),
)
"""Settings that a server makes at its start."""
LATE_ROOMS = (TransactionSettings, ShareStateSettings, ShareShardSettings)
"""Settings that a server makes when they are needed."""


def config() -> Config:
    """A configuration that all packages have read, so that it knows which properties have an effect."""
    found = load()
    for room in (*ROOMS, *LATE_ROOMS):
        found.settings(room)
    return found


def page() -> str:
    """The page."""
    effective = config().effective
    known = documentation("broker")
    silent = [f"`{name}`" for name in BROKER if name not in effective]
    return "\n".join(
        (
            "# Properties\n",
            "[Configuration](../configuration.md) says where values come from, and what a change does.\n",
            "## Muster's own\n",
            _table(MUSTER.values(), known),
            "\n## Kafka's, with an effect\n",
            _table((BROKER[name] for name in sorted(effective) if name in BROKER), known),
            "\n## Of topics\n",
            _table(TOPIC.values(), documentation("topic")),
            "\n## Of groups\n",
            _table(GROUP.values(), documentation("group")),
            "\n## Of client metrics\n",
            _table(CLIENT_METRICS.values(), documentation("client-metrics")),
            "\n## Kafka's, accepted without effect\n",
            f"{', '.join(silent)}.\n",
        )
    )


def _table(properties: Iterable[Property], texts: Mapping[str, str]) -> str:
    rows = ["| name | type, default, values | change | meaning |", "|---|---|---|---|"]
    for one in properties:
        if not one.internal:
            default = "" if one.default is None else f", `{one.default}`" if one.default else ', `""`'
            valid = "" if one.valid is None else f", {_cell(one.valid)}"
            about = _cell(_plain(texts.get(one.name, "")))
            rows.append(f"| `{one.name}` | {one.type}{default}{valid} | {one.update_mode} | {about} |")
    return "\n".join(rows)


def _plain(text: str) -> str:
    """A text of Kafka's, which has HTML, as plain text."""
    return html.unescape(re.sub(r"<[^>]+>", " ", text))


def _cell(text: str) -> str:
    """A text for a cell of a table: in one line, and with nothing that Markdown or HTML understands."""
    for sign in "\\`*_[]<>|{}":
        text = text.replace(sign, f"&#{ord(sign)};")
    return " ".join(text.split())
