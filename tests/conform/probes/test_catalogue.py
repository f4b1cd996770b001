"""Which probes there are for Kafka 4.4, and that each can be sent."""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator
from pathlib import Path

import pytest

from muster.conform.player import kafka_codec as codec
from muster.conform.probes import all_probes, forms
from muster.conform.probes.catalogue import Probe, probes
from muster.conform.probes.place import Ask, Place

APIS = json.loads((Path(__file__).parents[2] / "golden" / "versions.json").read_text())["apis"]
KAFKA_4_4 = {row["key"]: (row["min"], row["max"]) for row in APIS}
PLACE = Place("muster-conform-test", "muster-conform-test-topic", uuid.UUID(int=7), batch=b"batch")
ANSWER = {"GenerationId": 1, "MemberId": "m", "ProducerId": 1, "ProducerEpoch": 0}
"""What scripts look at in the answers to the requests around a probe."""


def test_kafka_4_4_gets_more_than_450_probes() -> None:
    assert len(all_probes(KAFKA_4_4)) >= 650
    assert len({one.id for one in all_probes(KAFKA_4_4)}) == len(all_probes(KAFKA_4_4))


def test_every_api_that_kafka_advertises_is_sent_in_every_version() -> None:
    skipped = [one.id for one in probes(KAFKA_4_4, may_alter=True) if one.skip]
    assert skipped == [f"probe-Produce-v{version}-smallest" for version in range(3)]
    sent = {(one.api, one.version) for one in probes(KAFKA_4_4, may_alter=True)}
    assert len(sent) == sum(high - low + 1 for low, high in KAFKA_4_4.values())


def test_every_api_has_a_rich_form_or_a_reason() -> None:
    apis = {one.api for one in probes(KAFKA_4_4)}
    assert apis - set(forms.RICH_BODIES) == set(forms.ONLY_SMALLEST)


def test_apis_between_brokers_are_left_out_with_a_reason() -> None:
    (left_out,) = probes({7: (0, 3)})
    assert left_out.skip == "ControlledShutdown is what a broker sends to a controller"


def test_what_changes_more_than_this_run_needs_may_alter() -> None:
    careful = {one.id for one in probes(KAFKA_4_4) if one.skip.startswith("only with --may-alter")}
    assert "probe-CreateAcls-v3-rich" in careful
    assert not [one for one in probes(KAFKA_4_4, may_alter=True) if "may-alter" in one.skip]


@pytest.mark.parametrize("form", [forms.SMALLEST, forms.RICH, forms.NULLS, forms.TAGS])
def test_requests_are_legal_by_kafkas_definitions(form: str) -> None:
    """They are encoded, read again by the same definition, and name nothing that is not of the run."""
    for probe in probes(KAFKA_4_4, may_alter=True):
        if probe.form == form and not probe.skip:
            for api, version, body in requests(probe):
                extra = forms.EXTRA if form == forms.TAGS and api == probe.api else None
                raw = codec.encode(api + "Request", version, body, extra)
                codec.decode(api + "Request", version, raw)


def requests(probe: Probe) -> list[tuple[str, int, dict[str, object]]]:
    """Every request of a probe, with those around it."""
    if probe.form == forms.SMALLEST or probe.api not in forms.RICH_BODIES:
        return [(probe.api, probe.version, forms.smallest(probe.api, probe.version))]
    made = forms.RICH_BODIES[probe.api](PLACE, probe.version)
    if not isinstance(made, Generator):
        made = iter([Ask(made)])
    found = []
    try:
        step = next(made)
        while True:
            if step.api is None:
                body = step.body
                if probe.form == forms.NULLS:
                    body = forms.nulls(probe.api, probe.version, body) or body
                found.append((probe.api, probe.version, body))
            else:
                found.append((step.api, codec.highest(step.api), step.body))
            step = made.send(ANSWER) if isinstance(made, Generator) else next(made)
    except StopIteration:
        return found


def test_no_probe_names_a_real_broker_or_asks_for_everything() -> None:
    """Requests that would harm a cluster name brokers, clusters and credentials that do not exist."""
    for probe in probes(KAFKA_4_4, may_alter=True):
        if not probe.skip and probe.form != forms.TAGS:
            for api, _, body in requests(probe):
                if api in ("UnregisterBroker", "UnregisterController"):
                    assert list(body.values()) == [2_147_483_647]
                if api in ("AddRaftVoter", "RemoveRaftVoter"):
                    assert body["ClusterId"] == "muster-conform-is-elsewhere"
                if api == "ElectLeaders":
                    assert body["TopicPartitions"] is not None
                if api == "DeleteAcls":
                    assert all(row["ResourceNameFilter"] for row in body["Filters"])
