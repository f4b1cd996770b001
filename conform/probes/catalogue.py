"""Which probes there are for a target: made from the versions that it advertises."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from muster.conform.player import kafka_codec as codec
from muster.conform.probes import forms

NAMES = {
    spec["apiKey"]: name.removesuffix("Request") for name, spec in codec.MESSAGES.items() if name.endswith("Request")
}
"""The names of the APIs by their keys."""

Versions = Mapping[int, tuple[int, int]]
"""The lowest and the highest version of each API, by its key, as ApiVersions reports them."""


@dataclasses.dataclass(frozen=True)
class Probe:
    """One request in one version and one form."""

    api: str
    version: int
    form: str
    skip: str = ""
    """Why it is not sent; empty if it is."""

    @property
    def id(self) -> str:
        """Its name in reports: `probe-JoinGroup-v9-rich`."""
        return f"probe-{self.api}-v{self.version}-{self.form}"

    @property
    def title(self) -> str:
        """What is sent, in words."""
        return f"{self.api} version {self.version}: {forms.FORMS[self.form]}"


def probes(advertised: Versions, *, may_alter: bool = False) -> list[Probe]:
    """The probes of a target that advertises these versions."""
    found = []
    for key, (low, high) in sorted(advertised.items()):
        name = NAMES.get(key)
        if name is None:
            why = forms.LEFT_OUT.get(key, "Kafka's clients do not have this API")
            found.append(Probe(f"api-{key}", high, forms.SMALLEST, why))
            continue
        for version in range(low, high + 1):
            found += _of(name, version, may_alter=may_alter, is_newest=version == _newest(name, high))
    return found


def _newest(api: str, high: int) -> int:
    return min(high, codec.highest(api))


def _of(api: str, version: int, *, may_alter: bool, is_newest: bool) -> list[Probe]:
    if not codec.in_range(codec.MESSAGES[api + "Request"]["validVersions"], version):
        return [Probe(api, version, forms.SMALLEST, "Kafka's definition of this version is not known here")]
    wanted = [forms.SMALLEST]
    if api in forms.RICH_BODIES:
        wanted.append(forms.RICH)
        if is_newest and api not in forms.WITHOUT_NULLS and _has_nulls(api, version):
            wanted.append(forms.NULLS)
    if is_newest and codec.is_flexible(api + "Request", version):
        wanted.append(forms.TAGS)
    found = []
    for form in wanted:
        why = forms.ONLY_IF_IT_MAY_ALTER.get((api, form), "")
        found.append(Probe(api, version, form, f"only with --may-alter: {why}" if why and not may_alter else ""))
    return found


def _has_nulls(api: str, version: int) -> bool:
    spec = codec.MESSAGES[api + "Request"]

    def any_of(fields: list[codec.Spec]) -> bool:
        return any(
            codec.in_range(one["versions"], version)
            and (codec.in_range(one.get("nullableVersions"), version) or any_of(one.get("fields", [])))
            for one in fields
        )

    return any_of(spec["fields"])
