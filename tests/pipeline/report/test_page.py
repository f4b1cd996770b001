"""The page, made from selected rows."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from muster.pipeline.report import groups
from muster.pipeline.report.content import About, Chosen, Some, Story
from muster.pipeline.report.formatting import CAUSES
from muster.pipeline.report.markup import LAST, Column, Html, join, slug, table, tag
from muster.pipeline.report.page import PAGE, pages
from muster.pipeline.report.select import bucket_size
from muster.pipeline.report.story import rebalance_cost
from muster.pipeline.wording import DAY, HOUR, MINUTE, SECOND, span
from tests.pipeline.report.made import EVIL, START_MS, chosen, group, progress, rebalance, setting, share, story

_VOID = {"meta", "br", "input"}


def first(of: Chosen) -> str:
    """The first page."""
    return pages(of)[PAGE]


class Reader(HTMLParser):
    """Checks that elements end in their order; collects text, anchors and links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.scripts = 0
        self.heads: list[dict[str, str | None]] = []
        self.twice: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "id" in given:
            self.twice += [given["id"] or ""] if given["id"] in self.ids else []
            self.ids.add(given["id"] or "")
        if name == "th":
            self.heads.append(given)
        self.links.extend(given[key] or "" for key in ("href", "src") if key in given)
        self.scripts += name == "script"
        if name not in _VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        if name not in _VOID:
            assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def test_the_page_is_complete_and_loads_nothing() -> None:
    page = first(chosen())
    read = Reader(page)
    assert all(link.startswith("#") and link[1:] in read.ids for link in read.links)
    assert read.links
    assert read.twice == []
    assert read.scripts == 1, "the one that helps to search and to sort"
    assert "url(" not in page
    assert "@import" not in page
    assert "http" not in page


def test_names_from_the_log_are_escaped() -> None:
    page = first(chosen())
    assert EVIL not in page
    assert EVIL in Reader(page).words


def test_the_page_shows_the_main_facts() -> None:
    words = Reader(first(chosen())).words
    for reported in (
        "3 rebalances",
        "payments-2 (10.0.0.2) sent no heartbeat for its session timeout",
        "joined : “back again”".replace(" :", ":"),
        "60 % sure",
        "1 to look at",
        "1 rebalance of first formations and of stops on purpose: not drawn.",
        "Most: 5,200 records at 2025-06-15 16:06 UTC; in the end 600",
        "a zombie: a member that had lost the partition still committed",
        "STOP: commits no more",
        "session.timeout 45 s",
        "static ids would have spared 2 of 3 rebalances",
        "1 of 2 generations came out",
        "2 malformed rows could not be used",
        "Times of commits that cannot be, taken from the log around them: ",
        "200 more: see the tables.",
        "moved, 11 kept",
        "3 51.2 s all: 2 min 34 s 42",
    ):
        assert reported in words


def test_control_characters_in_names_are_shown_harmlessly() -> None:
    names = ["\u202etnemyap", "a\nb\tc", " ", "👩\u200d🚀", "دفع", "\ud800", "x" * 300]
    rows = [group(name, verdict=f"{name}-1 died") for name in names]
    stories = [Story(row["group"], [share(1, 0, None, row["group"], [0])], Some(), row) for row in rows]
    page = first(chosen(groups=Some(rows, len(rows)), stories=stories))
    page.encode()
    read = Reader(page)
    for reported in (
        "\\u202etnemyap-1 died",
        "a\\nb\\tc",
        "“ ”",
        "👩\u200d🚀-1 died",
        "دفع",
        "\\ud800",
        "x" * 200 + "…",
    ):
        assert reported in read.words
    assert "\u202e" not in page
    assert len([one for one in read.ids if one.startswith("group-")]) == len(names)


def test_counts_of_one_use_the_singular() -> None:
    of = chosen(groups=Some([group("g")], 1), commits=1, causes=[chosen().causes[1]], last_ms=chosen().first_ms)
    words = Reader(first(of)).words
    assert "1 group 1 rebalance 0 s unread, partitions added up 1 commit" in words
    assert "2025-06-15 15:06:40 UTC." in words


def test_costs_of_trouble_are_shown_to_the_second() -> None:
    exact, inferred = About("log", {}, True, True), About("log", {}, False, True)
    long = group("g", trouble_ms=3_372_400, cost_ms=3_372_800)
    assert groups.cost(long, exact) == "partitions were not read for 56 min 12 s, all added up"
    assert groups.cost(long, inferred) == "partitions were not read for about 56 min 12 s, all added up"
    assert groups.cost(group("g", trouble_ms=0), exact) is None
    assert groups.cost(group("g", trouble_ms=None, cost_ms=None), exact) is None


@pytest.mark.parametrize(("hours", "until"), [(8.8, "23:54:40"), (9, "2025-06-16 00:06:40")])
def test_an_episode_over_midnight_has_the_day_of_its_end(hours: float, until: str) -> None:
    one = {"kind": "member_died", "sentence": "b died", "confidence": 1.0, "from_ms": START_MS}
    one |= {"until_ms": START_MS + round(hours * HOUR)}
    whole = story()
    reported = Story(whole.group, whole.shares, whole.rebalances, whole.about, Some([one], 1))
    assert f"2025-06-15 15:06:40 {until} b died" in Reader(first(chosen(stories=[reported]))).words


def test_a_page_without_events_and_ends_says_so() -> None:
    about = About("log", {}, False, False, since_ms=1_750_000_000_000, groups=("pay*",))
    words = Reader(first(chosen(about=about, grid=[], advice=Some(), fidelity=[], withheld=Some()))).words
    assert "rebalances are inferred" in words
    assert "Not known: the source has no ends of topics." in words
    assert "Only groups that match pay*." in words
    assert "Only what was logged from 2025-06-15 15:06:40 to the end." in words
    assert "What if" not in words


def test_the_what_if_names_omissions_and_estimates() -> None:
    of_log = {"source": "log", "groups": 4, "generations": 9, "reproduced": 9, "withheld": 1}
    words = Reader(first(chosen())).words
    assert "Rebalances that left a group empty are not counted here." in words
    assert "estimates" not in words
    estimated = Reader(first(chosen(fidelity=[*chosen().fidelity, of_log]))).words
    assert "Of 3 groups there is the offsets log alone" in estimated


def test_an_empty_log_makes_a_page_too() -> None:
    nothing = Chosen(
        About("log", {}, False, True),
        None,
        None,
        0,
        Some(),
        [],
        HOUR,
        [],
        [],
        Some(),
        Some(),
        Some(),
        Some(),
        0,
        [],
        Some(),
    )
    words = Reader(first(nothing)).words
    assert "The log has no group." in words
    assert "No group rebalanced." in words


def test_the_page_says_that_no_group_could_be_replayed() -> None:
    assert "No group's history could be replayed" in Reader(first(chosen(grid=[], advice=Some()))).words


def test_what_if_bars_stand_beside_the_actual_values() -> None:
    page = first(chosen(grid=[setting("half", 0, 76.8), setting("more", 30, 1_000.0)]))
    assert 'class="meter" title="50 % of what it was"' in page
    assert re.search(r'class="meter up" title="651 % of what it was"[^>]*><i style="width:100.0%"', page)


def test_every_cause_has_its_colour() -> None:
    page = first(chosen())
    for cause in [*CAUSES, "other"]:
        assert len(re.findall(rf"\.c-{cause}\{{--c:#[0-9a-f]{{6}}\}}", page)) == 2, "a light and a dark one"


def test_groups_that_need_help_come_first() -> None:
    rows = [
        group(
            "bad", level="help", verdict="bad-1 crash-loops", advice="static ids would have spared 3 of 4 rebalances"
        ),
        group("stuck", level="fine", verdict="fine"),
    ]
    of = chosen(groups=Some(rows, 2), levels={"help": 1, "fine": 1}, stories=[])
    words = Reader(first(of)).words
    top = words[words.index("Which groups need help") : words.index("Why groups rebalanced")]
    assert "1 needs help 0 to look at 1 fine" in top
    assert (
        "needs help bad : bad-1 crash-loops One change: static ids would have spared 3 of 4 rebalances "
        "Cost: partitions were not read for 51.2 s, all added up"
    ) in top
    calm = chosen(groups=Some([group("calm", level="fine")], 1), levels={"fine": 1}, stories=[])
    assert "No group needs help." in Reader(first(calm)).words


def test_the_reason_for_no_advice_is_shown_with_the_group() -> None:
    about = group("payments", level="help", unadvised="mostly members differ")
    words = Reader(first(chosen(stories=[replace(story(), about=about)]))).words
    assert "Nothing is advised: mostly members differ." in words


def test_the_rows_that_prove_a_claim_are_shown_after_a_click() -> None:
    rebalance_row = story().rebalances.rows[1]
    proof = [{"table": "rebalances", "at_ms": rebalance_row["end_ms"], "text": "generation 1 to 2: session expired"}]
    claim = {"rule": "crash_loop", "text": "b crash-loops", "confidence": "likely", "advice": "look why b ends"}
    about = group("payments", level="help", advice="static ids would help", claims=[
        claim | {"evidence": proof, "rows": 9}
    ])  # fmt: skip
    one = story().episodes.rows[0] | {"evidence": proof, "rebalances": 1}
    of = chosen(groups=Some([about], 1), stories=[replace(story(), about=about, episodes=Some([one], 1))])
    page = first(of)
    words = Reader(page).words
    assert "The evidence b crash-loops likely; rule: crash loop 2025-06-15 23:06:40 rebalances: generation" in words
    assert "session expired 8 more rows" in words
    assert "What to do: look why b ends" in words
    assert "One change: static ids" not in words, "they only hide that a member ends"
    assert page.count('<a href="#rebalance-payments-2-20250615T230640">') >= 3, "of the claim, the episode, the row"


def test_a_timeline_of_all_groups_is_at_the_top_with_links() -> None:
    bars = [row | {"group": "payments"} for row in chosen().buckets]
    page = first(chosen(progress=progress(), buckets=bars))
    words = Reader(page).words
    top = words[words.index("The cluster over time") : words.rindex("Which groups need help")]
    for title in (
        "Commits in a minute, of all partitions",
        "Behind: records not yet committed",
        "Rebalances over time",
    ):
        assert title in top
    bar = (
        r'<a href="#group-payments" tabindex="-1"><rect[^>]*><title>[^<]*2 session expired \(most of payments\)</title>'
    )
    assert len(re.findall(bar, page)) == 1


def test_a_time_without_a_sign_of_life_is_named_at_the_top() -> None:
    rows = [{"from_ms": START_MS, "until_ms": START_MS + 127_000, "groups": 9, "only": None}]
    words = Reader(first(chosen(silences=Some(rows, 1), last_ms=START_MS + HOUR))).words
    assert words.index(
        "no group committed from 15:06:40 to 15:08:47: coordinator or network were away. What to do: "
    ) < (words.index("The cluster over time"))


def test_the_first_lines_name_the_worst_groups_and_what_is_wrong() -> None:
    claims = [{"rule": "crash_loop", "text": "b crash-loops", "evidence": [], "rows": 0, "confidence": "likely",
               "advice": "look why b ends"}]  # fmt: skip
    rows = [group(f"bad-{number}", level="help", claims=claims) for number in range(4)]
    words = Reader(first(chosen(groups=Some(rows, 4)))).words
    top = words[: words.index("The cluster over time")]
    assert top.count(": b crash-loops. What to do: look why b ends. needs help") == 2
    assert "needs help bad-2 : b crash-loops. What to do: look why b ends." in top
    assert "bad-3" not in top


def test_rows_have_their_times_for_the_filter() -> None:
    page = first(chosen())
    rebalance_ms = rebalance(2, 8, None)["end_ms"]
    assert f'data-f="{rebalance_ms - 3_200}" data-u="{rebalance_ms}"' in page, "a rebalance"
    assert f'data-f="{START_MS + 8 * HOUR}" data-u="{START_MS + 9 * HOUR}"' in page, "an episode"
    assert f'data-f="{START_MS}" data-u="{LAST}"' in page, "a partition that still stalls"
    assert 'min="2025-06-15T15:06:40" max="2025-06-16T15:06:40"' in page


def test_tables_have_headers_for_screen_readers() -> None:
    heads = Reader(first(chosen())).heads
    assert heads
    assert {head.get("scope") for head in heads} == {"col", "row"}


def test_each_picture_has_a_name_and_its_figures() -> None:
    page = first(chosen())
    drawn = re.findall(r'<svg[^>]*role="img"[^>]*>(.*?)</svg>', page, re.DOTALL)
    assert len(drawn) == 4, "rebalances over time, and three curves of a group"
    assert all(re.match(r"<title>[^<]+</title><desc>[^<]+</desc>", one) for one in drawn)
    assert page.count("The figures") == 2
    words = Reader(page).words
    assert "2025-06-15 23:00 2 2" in words
    assert "2025-06-15 15:06:40 60 2 1.9 5,200" in words


def test_each_rebalance_has_a_place_of_its_own() -> None:
    page = first(chosen())
    read = Reader(page)
    places = sorted(one for one in read.ids if one.startswith("rebalance-"))
    assert places == [
        "rebalance-payments-1-20250615T150643",
        "rebalance-payments-2-20250615T230640",
        "rebalance-payments-3-20250616T000640",
    ]
    assert {f"#{one}" for one in places} <= set(read.links)
    assert "group-payments" in read.ids


# ---- many groups


def many(count: int, rebalances: int = 0, steps: int = 0) -> Chosen:
    """`count` groups, all equally unstable."""
    rows = [group(f"group {place:03}/é", level="fine") for place in range(count)]
    happened = [rebalance(at, at / 100, "member_left", reason="the consumer is being closed" * 2)
                for at in range(rebalances, 0, -1)]  # fmt: skip
    shares = [share(at, at / 100, (at + 1) / 100, f"c-{at % 3}", [at % 7]) for at in range(rebalances)]
    stories = [
        Story(row["group"], shares, Some([one | {"group": row["group"]} for one in happened], rebalances), row,
              progress=progress(steps))
        for row in rows
    ]  # fmt: skip
    return chosen(groups=Some(rows, count), stories=stories, levels={"fine": count})


def test_each_page_has_at_most_a_hundred_groups() -> None:
    made = pages(many(250, rebalances=1))
    assert list(made) == ["report.html", "report-2.html", "report-3.html"]
    read = {name: Reader(page) for name, page in made.items()}
    reported = [sum(one.startswith("group-") for one in of.ids) for of in read.values()]
    assert reported == [100, 100, 50]
    for name, of in read.items():
        for link in of.links:
            page, _, place = link.partition("#")
            assert (page or name) in read
            assert not place or place in read[page or name].ids, f"{name} has a link to {link}"
    assert {link.partition("#")[0] for link in read["report.html"].links} == {"", "report-2.html", "report-3.html"}
    assert "report.html" in read["report-3.html"].links
    assert "All 250 groups by name" in read["report.html"].words
    assert "1–100 101–200 201–250" in read["report-2.html"].words


def test_a_page_is_never_too_large() -> None:
    made = pages(many(110, rebalances=60, steps=24))
    for page in made.values():
        assert len(page.encode()) <= 1_000_000
    for page in made.values():
        assert Reader(page).twice == []
    worst, last = (
        len(re.findall(rf'id="rebalance-{slug(f"group {place:03}/é")}-', made["report.html"])) for place in (0, 99)
    )
    assert worst > last > 0, "there is more of those that need more help"


def test_few_groups_are_on_one_page_with_all_rebalances() -> None:
    made = pages(many(20, rebalances=40, steps=24))
    assert list(made) == ["report.html"]
    assert made["report.html"].count('<tr id="rebalance-') == 800


def test_the_cost_of_a_rebalance_is_shown() -> None:
    assert rebalance_cost(rebalance(2, 8, "member_left")) == (
        "3.2 s (join 3 s, sync 200 ms); partitions: 5 moved, 11 kept; paused 51.2 s in all; members 2 → 1"
    )
    bare = dict.fromkeys(rebalance(2, 8, None)) | {"failed_attempts": 2}
    assert rebalance_cost(bare) == "2 failed attempts"


def test_inferred_times_have_no_milliseconds() -> None:
    guess = dict.fromkeys(rebalance(2, 8, None)) | {"source": "inferred", "join_phase_ms": 1_999, "sync_phase_ms": 1}
    bounds = {"took_ms": 2_000, "took_least_ms": 104, "took_most_ms": 3_004}
    assert rebalance_cost(guess | bounds) == "0.1 to 3 s"
    assert rebalance_cost(guess | bounds | {"took_least_ms": 1_990, "took_most_ms": 2_005}) == "2 s"
    died = [{"instance_id": None, "client_id": name, "member_id": name} for name in ("b", "c")]
    named = {"died": died, "silent_partition_ms": 20_000, "came": ["d", "e"], "went": ["a"]}
    assert rebalance_cost(guess | named) == "lost: b, c; unread before anybody noticed: 20 s in all; came: d, e"


def test_a_duration_is_shown_with_its_bounds() -> None:
    assert span(None, None, None) == "–"
    assert span(2_000, None, None) == "2 s"
    assert span(90_000, 80_400, 95_000) == "1 min 20 s to 1 min 35 s"
    assert span(2_040, 2_010, 2_070) == "2 to 2.1 s"
    assert span(2_000, 1_960, 2_040) == "2 s"


@pytest.mark.parametrize(
    ("span", "size"),
    [
        (0, 5 * SECOND),
        (4 * MINUTE, 5 * SECOND),
        (HOUR, MINUTE),
        (DAY, 30 * MINUTE),
        (30 * DAY, 12 * HOUR),
        (420 * DAY, 7 * DAY),
        (600 * DAY, 10 * DAY),
    ],
)
def test_columns_have_the_width_of_a_round_interval(span: int, size: int) -> None:
    assert bucket_size(span) == size


def test_markup_is_built_and_escaped() -> None:
    assert (
        tag("p", "a<b", None, ["c", Html("<br>")], class_="x", data_l='"')
        == '<p class="x" data-l="&quot;">a&lt;bc<br></p>'
    )
    assert join(["&", Html("&amp;")]) == "&amp;&amp;"
    with pytest.raises(ValueError, match="zip"):
        table([Column("one")], [("a", "b")])
