"""Kafka's documentation of its properties, for DescribeConfigs with IncludeDocumentation (KIP-569).

The texts are Apache Kafka's own, distilled from its jars by tools/properties into documentation.json. They are loaded
at the first request for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from muster.coordinator.properties.own import ABOUT


def documentation(kind: str) -> Mapping[str, str]:
    """The texts by property. `kind`: broker, topic, group or client-metrics. A broker also has Muster's own
    properties.
    """
    return _all()[kind]


@cache
def _all() -> Mapping[str, Mapping[str, str]]:
    text = files("muster.coordinator.properties").joinpath("documentation.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = json.loads(text)
    found["broker"].update(ABOUT)
    return found
