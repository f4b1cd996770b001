"""Webhooks get CloudEvents, again after failures, in order; a URL that fails holds up no other."""

from __future__ import annotations

import json
from email.message import Message
from urllib.error import HTTPError, URLError

import pytest
from structlog.testing import capture_logs

from muster.coordinator.alerts.book import FIRING, Alert, Report
from muster.coordinator.alerts.webhooks import LONGEST_WAIT_MS, MAX_WAITING, TRIES, Webhooks, cloud_event, urls_of
from muster.coordinator.config import ConfigError
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs.jobs import AtOnce
from muster.pipeline.episodes.claims import Evidence

URL = "https://user:secret@hooks.example/T0/secret?x=1"
ALERT = Alert("g", "stuck", "stuck in Assigning", ("a",), 1_700_000_000_000, "certain", "look at a",
              (Evidence("members", None, "a is to sync"),))  # fmt: skip


def report(group: str = "g") -> Report:
    return Report(FIRING, ALERT._replace(group=group))


class Receiver:
    """What URLs got. The next answers are `errors`, if there are any."""

    def __init__(self, *urls: str) -> None:
        self.got: list[tuple[str, dict[str, object]]] = []
        self.errors: list[OSError | None] = []
        self.clock = ManualClock()
        self.hooks = Webhooks(urls or (URL,), self.send, self.clock, AtOnce)

    def send(self, url: str, body: bytes) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.got.append((url, json.loads(body)))

    def report(self, reports: list[Report]) -> None:
        self.hooks.report(reports, "c", 0)
        self.clock.advance(0)

    def groups(self) -> list[object]:
        return [event["subject"] for _, event in self.got]


def refused(status: int) -> HTTPError:
    return HTTPError(URL, status, "no", Message(), None)


def test_the_event_has_the_sentence_the_evidence_and_what_to_do() -> None:
    event = json.loads(cloud_event(Report(FIRING, ALERT), "c1", 1_700_000_060_000))
    identity = event.pop("id")
    assert event == {
        "specversion": "1.0",
        "source": "/muster/clusters/c1",
        "type": "muster.alert.firing",
        "subject": "g",
        "time": "2023-11-14T22:14:20Z",
        "datacontenttype": "application/json",
        "data": {
            "status": "firing", "cluster": "c1", "group": "g", "rule": "stuck", "text": "stuck in Assigning",
            "who": ["a"], "since": 1_700_000_000_000, "confidence": "certain", "advice": "look at a",
            "evidence": [{"table": "members", "time": None, "text": "a is to sync"}],
        },
    }  # fmt: skip
    assert identity == json.loads(cloud_event(Report(FIRING, ALERT), "c1", 1_700_000_060_000))["id"]
    storm = json.loads(cloud_event(Report(FIRING, ALERT._replace(group=None)), "c1", 0))
    assert "subject" not in storm
    assert storm["id"] != identity


def test_an_event_is_sent_again_later_each_time_and_the_next_ones_after_it() -> None:
    found = Receiver()
    found.errors = [URLError("away"), refused(503), refused(429)]
    with capture_logs() as lines:
        found.report([report("g1"), report("g2")])
        for wait_ms in (1_000, 2_000, 4_000):
            found.clock.advance(wait_ms - 1)
            assert found.got == []
            found.clock.advance(1)
    assert found.groups() == ["g1", "g2"]
    assert found.hooks.counts == {"sent": 2, "retried": 3}
    assert [(one["webhook"], one["why"]) for one in lines] == [("https://hooks.example", "away")]


def test_what_is_refused_or_fails_too_often_is_given_up() -> None:
    found = Receiver()
    found.errors = [refused(400)]
    found.report([report("g1"), report("g2")])
    assert found.groups() == ["g2"]
    found.errors = [refused(500)] * TRIES
    found.report([report("g3"), report("g4")])
    found.clock.advance(TRIES * LONGEST_WAIT_MS)
    assert found.groups() == ["g2", "g4"]
    assert found.hooks.counts == {"lost": 2, "sent": 2, "retried": TRIES - 1}


def test_a_full_queue_loses_its_oldest_events_and_other_urls_none() -> None:
    found = Receiver(URL, "http://other.example")
    found.errors = [refused(500)]
    found.report([report(f"g{number}") for number in range(MAX_WAITING + 2)])
    assert len([one for url, one in found.got if url != URL]) == MAX_WAITING + 2
    assert found.hooks.counts["lost"] == 2
    found.clock.advance(1_000)
    assert [event["subject"] for url, event in found.got if url == URL][:2] == ["g0", "g3"]
    found.errors = [refused(500)]
    found.report([report("late")])
    found.hooks.stop()
    found.clock.advance(10 * LONGEST_WAIT_MS)
    assert found.groups().count("late") == 1


@pytest.mark.parametrize(
    "text", ["hooks.example/secret", "ftp://hooks.example/secret", "http://[secret", "http://a " * 11]
)
def test_wrong_urls_are_refused_without_their_text(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        urls_of(text)
    assert "secret" not in str(caught.value)
    assert urls_of(" http://a/1, https://b/2 ") == ["http://a/1", "https://b/2"]
    assert urls_of(None) == []
