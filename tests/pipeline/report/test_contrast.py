"""Every colour of the page has enough contrast to its background: WCAG 2.2 AA, 4.5:1 for text, 3:1 for pictures."""

from __future__ import annotations

import re

import pytest

from muster.pipeline.report.formatting import CAUSES, UNKNOWN_CAUSE, sheet
from muster.pipeline.report.timeline import FULL, PALE

TEXT, PICTURE = 4.5, 3.0
CAUSE_WORDS = {**CAUSES, "other": UNKNOWN_CAUSE}


def colours(scheme: str) -> dict[str, str]:
    """The colours of :root in one scheme, by name."""
    blocks = re.findall(r":root \{(.*?)\}", sheet(), re.DOTALL)
    light, dark, paper = (dict(re.findall(r"--(\w+): (#\w+);", one)) for one in blocks)
    return {"light": light, "dark": light | dark, "paper": light | paper}[scheme]


def channels(colour: str) -> list[float]:
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(one * 2 for one in digits)
    return [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]


def luminance(parts: list[float]) -> float:
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[float], other: list[float]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(colour: str, percent: float, under: str) -> list[float]:
    """The colour that color-mix(in srgb, …) gives."""
    pairs = zip(channels(colour), channels(under), strict=True)
    return [one * percent / 100 + other * (1 - percent / 100) for one, other in pairs]


def test_the_contrast_measure_is_that_of_wcag() -> None:
    assert contrast(channels("#fff"), channels("#000000")) == pytest.approx(21)
    assert contrast(channels("#767676"), channels("#fff")) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark", "paper"])
def test_the_contrast_of_text_is_sufficient(scheme: str) -> None:
    of = colours(scheme)
    for ground in ("card", "page"):
        for ink in ("ink", "dim", "own", "warn"):
            assert contrast(channels(of[ink]), channels(of[ground])) >= TEXT, f"{ink} on {ground}"
    for badge in ("help", "look", "fine"):
        assert contrast(channels(of["on"]), channels(of[badge])) >= TEXT, badge


@pytest.mark.parametrize("scheme", ["light", "dark", "paper"])
def test_the_contrast_of_pictures_is_sufficient(scheme: str) -> None:
    of = colours(scheme)
    for name in ("own", "warn", "dim", "edge", "help", "look", "fine"):
        assert contrast(channels(of[name]), channels(of["card"])) >= PICTURE, name
    # the number of partitions on a bar, and the line that ends the bar below
    for shade in (PALE, FULL):
        assert contrast(channels(of["ink"]), mixed(of["own"], shade, of["card"])) >= TEXT
    for line in ("own", "edge"):
        assert contrast(channels(of[line]), mixed(of["line"], 40, of["card"])) >= PICTURE, line


@pytest.mark.parametrize("scheme", ["light", "dark", "paper"])
@pytest.mark.parametrize("cause", CAUSE_WORDS)
def test_the_contrast_of_causes_is_sufficient(scheme: str, cause: str) -> None:
    of, words = colours(scheme), CAUSE_WORDS[cause]
    own = words.on_dark if scheme == "dark" else words.colour
    assert contrast(channels(own), channels(of["card"])) >= PICTURE
    assert contrast(channels(of["on"]), channels(own)) >= TEXT


def test_no_two_causes_look_the_same() -> None:
    looks = [(words.mark, words.colour) for words in CAUSE_WORDS.values()]
    assert len({mark for mark, _ in looks}) == len(looks)
