"""The page in a real browser, headless: on a phone, on a desk, on paper. Skipped where there is no Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from muster.pipeline.report.page import render
from tests.pipeline.report.made import EVIL, chosen

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open the page with")

# what somebody who looks at the page would see, told in its place
PROBE = """<script>addEventListener('load', () => {
  const all = [...document.querySelectorAll('main *')].filter(e => e.checkVisibility());
  const texts = all.filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()));
  const found = {
    width: innerWidth, content: document.documentElement.scrollWidth,
    smallest: Math.min(...texts.map(e => parseFloat(getComputedStyle(e).fontSize))),
    outside: texts.filter(e => { const b = e.getBoundingClientRect(); return b.left < -1 || b.right > innerWidth + 1; })
      .map(e => e.outerHTML.slice(0, 80)),
    loaded: performance.getEntriesByType('resource').length,
    lanes: document.querySelectorAll('.lane:not(.free)').length,
    columns: [...document.querySelectorAll('.chart rect')].filter(e => e.getBoundingClientRect().height > 3).length,
    marks: [...document.querySelectorAll('.marks b')].map(e => e.textContent + getComputedStyle(e).backgroundColor),
    stretches: [...document.querySelectorAll('.bar i')].map(e => Math.round(e.getBoundingClientRect().width)),
    bar: Math.round(document.querySelector('.bar').getBoundingClientRect().width),
    head: getComputedStyle(document.querySelector('thead')).display,
    title: document.title,
  };
  document.body.textContent = ''; document.body.append(JSON.stringify(found));
})</script>"""


def chromium(tmp_path: Path, *arguments: str) -> str:
    assert CHROMIUM is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(
        [CHROMIUM, *flags, profile, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def seen(tmp_path: Path, width: int, height: int) -> dict[str, Any]:
    """The page in a window (in a frame: a headless window is never narrower than 500 pixels)."""
    inner = render(chosen()).replace("</head>", f"{PROBE}</head>")
    frame = f'<iframe id="f" style="width:{width}px;height:{height}px;border:0" srcdoc="{html.escape(inner)}"></iframe>'
    outer = (
        f"<!doctype html><body>{frame}<script>document.getElementById('f').addEventListener('load', event => {{"
        "const told = event.target.contentDocument.body.textContent;"
        "document.body.textContent = 'FOUND' + told + 'END'; })</script>"
    )
    file = tmp_path / "frame.html"
    file.write_text(outer, encoding="utf-8")
    dom = chromium(tmp_path, "--virtual-time-budget=5000", "--dump-dom", file.as_uri())
    told = re.search("FOUND(.*)END", dom, re.DOTALL)
    assert told is not None, dom[-2_000:]
    found: dict[str, Any] = json.loads(html.unescape(told[1]))
    return found


@pytest.mark.parametrize(("width", "height", "is_phone"), [(375, 740, True), (1_280, 900, False)])
def test_the_page_on_a_screen(tmp_path: Path, width: int, height: int, is_phone: bool) -> None:
    found = seen(tmp_path, width, height)
    assert found["width"] == width
    assert found["content"] <= width, "the page is wider than the screen"
    assert found["outside"] == []
    assert found["smallest"] >= 10
    assert found["loaded"] == 0
    assert found["lanes"] == 3
    assert found["columns"] == 2
    assert len(set(found["marks"])) == 3, "causes have letters and colours of their own"
    # payments-1: eight hours of a day, one, fifteen
    day = found["bar"]
    assert found["stretches"][:3] == pytest.approx([day / 3, day / 24, day * 15 / 24], abs=2)
    assert found["head"] == ("none" if is_phone else "table-header-group")
    assert EVIL not in found["title"]


def test_the_page_on_paper(tmp_path: Path) -> None:
    file, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    file.write_text(render(chosen()), encoding="utf-8")
    chromium(tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer", file.as_uri())
    assert paper.read_bytes().startswith(b"%PDF-")
    assert paper.stat().st_size > 20_000
