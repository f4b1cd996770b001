"""The page in a real browser, headless: on a phone, on a desktop, on paper. Skipped without Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from muster.pipeline.report import markup
from muster.pipeline.report.page import PAGE, pages
from tests.pipeline.report.made import EVIL, chosen
from tests.pipeline.report.test_page import many

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open the page with")

# replaces what a person who looks at the page would see
PROBE = """<script>
/* texts that lie on one another, of the same picture */
const covered = what => {
  const found = [];
  for (const of of new Set([...document.querySelectorAll(what)].map(e => e.parentElement))) {
    const boxes = [...of.querySelectorAll(what.split(' ')[1])].filter(e => e.checkVisibility())
      .map(e => [e.textContent, e.getBoundingClientRect()]);
    for (const [a, one] of boxes) for (const [b, other] of boxes)
      if (one !== other && one.left < other.right && other.left < one.right && one.top < other.bottom
        && other.top < one.bottom) found.push(a + ' on ' + b);
  }
  return found;
};
/* somebody who searches, sorts and follows a link */
const used = () => {
  const table = document.querySelector('table.sortable'), head = [...table.tHead.rows[0].cells];
  const names = () => [...table.tBodies[0].rows].filter(e => !e.hidden).map(e => e.cells[0].textContent);
  const found = {tools: document.querySelector('#groups .tools').checkVisibility(), before: names()};
  const at = head.findIndex(e => e.textContent === 'rebalances');
  head[at].querySelector('button').click();
  found.sorted = [head[at].getAttribute('aria-sort'), ...names()];
  head[at].querySelector('button').click();
  found.turned = [head[at].getAttribute('aria-sort'), ...names()];
  const field = document.querySelector('#groups .tools input');
  field.value = 'ONLY'; field.dispatchEvent(new Event('input'));
  found.searched = [document.querySelector('#groups .found').textContent, ...names()];
  field.value = ''; field.dispatchEvent(new Event('input'));
  const [from] = document.querySelectorAll('.times input');
  const rebalances = () => [...document.querySelectorAll('tr[id^=rebalance-]')].filter(e => e.checkVisibility()).length;
  found.timed = [document.querySelector('.times').checkVisibility(), rebalances()];
  from.value = '2025-06-15T23:30:00'; from.dispatchEvent(new Event('input', {bubbles: true}));
  found.timed.push(rebalances(), document.querySelector('.times .found').textContent.replace(/[0-9]+/g, 'N'));
  from.value = ''; from.dispatchEvent(new Event('input', {bubbles: true}));
  return found;
};
addEventListener('load', () => {
  const all = [...document.querySelectorAll('main *')].filter(e => e.checkVisibility());
  const texts = all.filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()));
  const found = {
    width: innerWidth, content: document.documentElement.scrollWidth,
    smallest: Math.min(...texts.map(e => parseFloat(getComputedStyle(e).fontSize))),
    outside: texts.filter(e => { const b = e.getBoundingClientRect(); return b.left < -1 || b.right > innerWidth + 1; })
      .map(e => e.outerHTML.slice(0, 80)),
    loaded: performance.getEntriesByType('resource').length,
    lanes: document.querySelectorAll('.stack .row').length,
    columns: [...document.querySelectorAll('.chart rect')].filter(e => e.getBoundingClientRect().height > 3).length,
    labels: [...document.querySelectorAll('td[data-l]')].filter(e => e.checkVisibility() &&
      getComputedStyle(e, '::before').whiteSpace === 'nowrap').length,
    marks: [...document.querySelectorAll('.marks a')].filter(e => e.checkVisibility())
      .map(e => e.textContent + getComputedStyle(e).backgroundColor),
    hidden: covered('.marks a'), ticks: covered('.ticks span'), scales: covered('.scale span'),
    lines: [...document.querySelectorAll('.line')].filter(e => e.getBoundingClientRect().width > 100).length,
    stretches: [...document.querySelectorAll('.bar i')].map(e => Math.round(e.getBoundingClientRect().width)),
    bar: Math.round(document.querySelector('.bar').getBoundingClientRect().width),
    head: getComputedStyle(document.querySelector('thead')).display,
    ground: getComputedStyle(document.body).backgroundColor,
    ...used(),
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


def seen(tmp_path: Path, width: int, height: int, page: str | None = None) -> dict[str, Any]:
    """The page in a window. (It is in a frame, because a headless window is never narrower than 500 pixels.)"""
    inner = (page or pages(chosen())[PAGE]).replace("</head>", f"{PROBE}</head>")
    frame = f'<iframe id="f" style="width:{width}px;height:{height}px;border:0" srcdoc="{html.escape(inner)}"></iframe>'
    outer = (
        f"<!doctype html><body>{frame}<script>document.getElementById('f').addEventListener('load', event => {{"
        "const told = event.target.contentDocument.body.textContent;"
        "document.body.textContent = 'FOUND' + told + 'END'; })</script>"
    )
    file = tmp_path / "frame.html"
    file.write_text(outer, encoding="utf-8")
    dom = chromium(tmp_path, "--virtual-time-budget=5000", "--dump-dom", file.as_uri())
    reported = re.search("FOUND(.*)END", dom, re.DOTALL)
    assert reported is not None, dom[-2_000:]
    found: dict[str, Any] = json.loads(html.unescape(reported[1]))
    return found


@pytest.mark.parametrize(("width", "height", "is_phone"), [(390, 740, True), (820, 900, False), (1_440, 900, False)])
def test_the_page_fits_a_screen(tmp_path: Path, width: int, height: int, is_phone: bool) -> None:
    found = seen(tmp_path, width, height)
    assert found["width"] == width
    assert found["content"] <= width, "the page is wider than the screen"
    assert found["outside"] == []
    assert found["smallest"] >= 10
    assert found["loaded"] == 0
    assert found["lanes"] == 3
    assert found["columns"] == 1, "a first formation is not drawn"
    assert found["lines"] == 3
    assert not is_phone or found["labels"] == 0, "names of columns run into what stands beside them"
    assert len(set(found["marks"])) == len(found["marks"]) == (3 if width == 1_440 else 2), "letters and colours"
    assert [found["hidden"], found["ticks"], found["scales"]] == [[], [], []], "texts that hide each other"
    # payments-1: eight hours of a day, one, fifteen
    day = found["bar"]
    assert found["stretches"][:3] == pytest.approx([day / 3, day / 24, day * 15 / 24], abs=2)
    assert found["head"] == ("none" if is_phone else "table-header-group")
    assert EVIL not in found["title"]
    assert found["tools"]
    payments, evil, only = found["before"]
    assert found["sorted"] == ["descending", payments, evil, only]
    assert found["turned"] == ["ascending", evil, only, payments]
    assert found["searched"] == ["1 group here", only]
    assert found["timed"] == [True, 3, 1, "N of N rows"]


WHERE = """<script>
/* where somebody who follows a link arrives: page, part of it, and whether the place itself is in sight */
addEventListener('load', () => setTimeout(() => {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const part = document.elementFromPoint(innerWidth / 2, 40)?.closest('section');
  document.title = 'FOUND' + JSON.stringify([location.pathname.split('/').pop(), part && part.id,
    !!place && place.checkVisibility() && place.getBoundingClientRect().top < innerHeight]) + 'END';
}, 300));
</script></head>"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of many groups."""
    folder = tmp_path_factory.mktemp("pages")
    for name, page in pages(many(105, rebalances=20)).items():
        (folder / name).write_text(page.replace("</head>", WHERE), encoding="utf-8")
    return folder


@pytest.mark.parametrize("page", ["report.html", "report-2.html"])
@pytest.mark.parametrize(
    ("number", "rebalance", "is_there"),
    [(2, None, True), (103, None, True), (2, "1", True), (103, "1", True), (103, "99", False)],
)
def test_a_link_leads_to_its_place_also_on_another_page(
    tmp_path: Path, written: Path, page: str, number: int, rebalance: str | None, is_there: bool
) -> None:
    """A link also leads to folded content. If a rebalance is so old that it is only in the tables, the link leads to
    the group.
    """
    name = f"group {number:03}/é"
    place = markup.group_anchor(name)
    if rebalance:
        found = [one for one in rebalances_of(written, name) if one.startswith(f"{rebalance}-")]
        assert bool(found) == is_there
        link = f"rebalance-{markup.slug(name)}-{(found or [rebalance])[0]}"
    else:
        link = place
    dom = chromium(tmp_path, "--virtual-time-budget=5000", "--dump-dom", f"{(written / page).as_uri()}#{link}")
    reported = re.search("<title>FOUND(.*)END</title>", dom)
    assert reported is not None
    wanted = "report-2.html" if number > 100 else "report.html"
    assert json.loads(html.unescape(reported[1])) == [wanted, place, is_there]


SEARCH = """<script>
addEventListener('load', () => {
  const field = document.querySelector('#groups .tools input');
  field.value = 'GROUP 104'; field.dispatchEvent(new Event('input'));
  const found = document.querySelector('#groups .found');
  document.title = 'FOUND' + JSON.stringify([found.textContent, [...found.querySelectorAll('a')]
    .map(a => a.getAttribute('href'))]) + 'END';
});
</script></head>"""


@pytest.mark.parametrize(
    ("page", "reported"), [("report.html", "0 groups here, on other pages: "), ("report-2.html", "1 group here, ")]
)
def test_a_search_mentions_the_other_pages(tmp_path: Path, page: str, reported: str) -> None:
    file = tmp_path / "page.html"
    file.write_text(pages(many(105))[page].replace("</head>", SEARCH), encoding="utf-8")
    dom = chromium(tmp_path, "--virtual-time-budget=5000", "--dump-dom", file.as_uri())
    found = re.search("<title>FOUND(.*)END</title>", dom)
    assert found is not None
    name = "group 104/é"
    other = (f"report-2.html#{markup.group_anchor(name)}", name)
    link, text = other if page == PAGE else (f"{PAGE}#groups", "look among all")
    assert json.loads(html.unescape(found[1])) == [reported + text, [link]]


def rebalances_of(folder: Path, group: str) -> list[str]:
    """The ends of the links to a group's rebalances."""
    text = "".join(file.read_text(encoding="utf-8") for file in folder.iterdir())
    return re.findall(rf'id="rebalance-{re.escape(markup.slug(group))}-([^"]+)"', text)


def test_the_page_has_a_dark_style(tmp_path: Path) -> None:
    """Chromium uses the dark style, and the pictures have its colours."""
    page = pages(chosen())[PAGE].replace("@media screen and (prefers-color-scheme:dark)", "@media screen")
    found = seen(tmp_path, 1_440, 900, page)
    assert found["ground"] == "rgb(18, 22, 28)"
    assert "X" + "rgb(255, 123, 114)" in found["marks"]


def test_the_page_can_be_printed(tmp_path: Path) -> None:
    file, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    file.write_text(pages(chosen())[PAGE], encoding="utf-8")
    chromium(tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer", file.as_uri())
    assert paper.read_bytes().startswith(b"%PDF-")
    assert paper.stat().st_size > 20_000
