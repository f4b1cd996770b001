"""Names of properties: Kafka's, Muster's, those of one listener, and the nearest one to a wrong name."""

from __future__ import annotations

from collections.abc import Mapping

from muster.coordinator.properties.definition import Property
from muster.coordinator.properties.lookup import BROKER, DYNAMIC_ONLY, MUSTER, OUTSIDE, TOPIC, TOPIC_SYNONYMS

_LISTENER = "listener.name."
_PLUG_INS = ("remote.log.storage.manager.impl.prefix", "remote.log.metadata.manager.impl.prefix")


def known(name: str, given: Mapping[str, str]) -> Property | None:
    """The definition of a property of this name, or None when Kafka 4.3 does not have it. `given` are all given
    properties.

    A listener's own property (`listener.name.<listener>[.<mechanism>].<property>`) has the definition of the property
    that it overrides. Properties of plug-ins (config.providers.*, and those with a prefix of tiered storage) may be any
    text.
    """
    found = BROKER.get(name) or MUSTER.get(name)
    if found is not None:
        return found
    if name.startswith(_LISTENER):
        return _of_listener(name)
    if name in OUTSIDE or name.startswith("config.providers.") or _of_plug_in(name, given):
        return Property(name, "STRING", None, None, "LOW", "read-only", False)
    return DYNAMIC_ONLY.get(name)


def _of_listener(name: str) -> Property | None:
    _, dot, rest = name.removeprefix(_LISTENER).partition(".")
    base = BROKER.get(rest) or BROKER.get(rest.partition(".")[2])
    if not dot or base is None:
        return None
    return Property(name, base.type, None, base.valid, base.importance, base.update_mode, False)


def _of_plug_in(name: str, given: Mapping[str, str]) -> bool:
    prefixes = (given.get(prop) or BROKER[prop].default or "" for prop in _PLUG_INS)
    return any(prefix and name.startswith(prefix) for prefix in prefixes)


def hint(name: str) -> str:
    """A suggestion for an unknown name, as the end of a sentence. It is empty when no known name is near."""
    if name in TOPIC:
        synonyms = TOPIC_SYNONYMS.get(name)
        return (
            f"; that is a property of topics, the broker's is {synonyms[0][0]}"
            if synonyms
            else ("; that is a property of topics only")
        )
    import difflib  # only needed to explain a mistake

    near = difflib.get_close_matches(name.lower(), [*BROKER, *MUSTER], n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
