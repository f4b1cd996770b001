"""Reports alerts that begin and end: to the log, to metrics and to webhooks. Also reads the settings of alerts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import structlog

from muster.coordinator.alerts.book import FIRING, Alert, AlertBook
from muster.coordinator.alerts.quiet_times import is_quiet, quiet_time
from muster.coordinator.alerts.settings import AlertSettings
from muster.coordinator.alerts.webhooks import CONTENT_TYPE, Webhooks, urls_of
from muster.coordinator.config import Config, ConfigError
from muster.coordinator.net.fetch_thread import FetchThread
from muster.coordinator.net.http_get import http_send
from muster.coordinator.server.exposition import COUNTER, GAUGE, Metric
from muster.coordinator.system.clock import Clock

log = structlog.get_logger("muster.groups")

TOKEN_OF_WEBHOOKS: Final = "muster.alerts.token.file"


def checked(config: Config) -> AlertSettings:
    """The settings of alerts. Raises ConfigError."""
    settings = config.settings(AlertSettings)
    urls_of(settings.muster_alerts_webhooks)
    try:
        for one in settings.muster_alerts_quiet_times:
            quiet_time(one)
    except ValueError as error:
        raise ConfigError(f"muster.alerts.quiet.times: {error}") from error
    return settings


def sender(token: str | None) -> Callable[[str, bytes], None]:
    """The function that sends an event to a URL, with a token in its headers."""
    import ssl  # with webhooks only: this import takes some time

    context = ssl.create_default_context()
    headers = {"Content-Type": CONTENT_TYPE} | ({} if token is None else {"Authorization": f"Bearer {token}"})

    def send(url: str, body: bytes) -> None:
        http_send(url, body, headers, context)

    return send


def webhooks_of(config: Config, clock: Clock, token: str | None) -> Webhooks:
    """The webhooks of a configuration that was `checked`. `token`: what they get in their headers."""
    urls = urls_of(config.settings(AlertSettings).muster_alerts_webhooks)
    loop = asyncio.get_running_loop()

    def new_worker() -> FetchThread:
        return FetchThread(loop.call_soon_threadsafe)

    send: Callable[[str, bytes], object] = sender(token) if urls else lambda *_: None
    return Webhooks(urls, send, clock, new_worker)


class AlertReports:
    """See the module. `book`: the open alerts."""

    def __init__(self, settings: AlertSettings, webhooks: Webhooks) -> None:
        self.book = AlertBook(settings.muster_alerts_repeat_ms)
        self._quiet_times = [quiet_time(one) for one in settings.muster_alerts_quiet_times]
        self._webhooks = webhooks

    def take(self, found: Mapping[str | None, Sequence[Alert]], cluster_id: str, now_ms: int) -> None:
        """Take the alerts of the groups in `found`, and report what begins and ends."""
        for status, alert in self.book.begins_and_ends(found, now_ms):
            about = {"rule": alert.rule} | ({} if alert.group is None else {"group": alert.group})
            if status == FIRING:
                advice = {} if alert.advice is None else {"advice": alert.advice}
                log.warning("a group needs help", **about, what=alert.text, **advice)
            else:
                log.info("a group needs no help any more", **about, what=alert.text)
        to_send = self.book.to_send(now_ms, is_quiet=is_quiet(self._quiet_times, now_ms))
        self._webhooks.report(to_send, cluster_id, now_ms)

    def stop(self) -> None:
        """Send nothing more."""
        self._webhooks.stop()

    def metrics(self) -> Iterator[Metric]:
        """The present metrics."""
        alerts = {(one.group or "", one.rule): 1 for one in self.book.open()}
        about = "1: the group needs help, by the rule of an alert. The group without a name is several groups."
        yield Metric("muster_alerts", GAUGE, about, alerts, ("group", "rule"))
        begun = {(rule,): count for rule, count in self.book.counts.items()}
        yield Metric("muster_alerts_total", COUNTER, "Alerts that have begun.", begun, ("rule",))
        outcomes = {(outcome,): count for outcome, count in self._webhooks.counts.items()}
        about = "Events for webhooks, by outcome: sent, retried or lost."
        yield Metric("muster_alert_events_total", COUNTER, about, outcomes, ("outcome",))
