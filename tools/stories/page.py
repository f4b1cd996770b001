"""Writes conform/kafka-releases.md from the stories, from `changes.toml` and from what the releases serve.

python -m tools.stories.page [--check]
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.conform import catalogue
from muster.conform.player import kafka_codec as codec
from muster.conform.player.releases import RELEASES, Release, name_of, release_of, text_of
from muster.conform.player.story import Story
from tools.pages import paragraphs, wrapped

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "conform" / "kafka-releases.md"
SERVED = HERE / "releases.json"
Versions = Mapping[str, Sequence[int]]
"""The lowest and the highest version of each API, by its number."""


@dataclass(frozen=True)
class Change:
    """A change of Kafka, and the stories in which it shows."""

    since: Release
    says: str
    stories: tuple[str, ...] = ()
    """Names or patterns of names."""
    without: str = ""
    """A regular expression: texts that differ only in what it finds differ for this change."""


def changes() -> list[Change]:
    """The changes of changes.toml."""
    rows = tomllib.loads((HERE / "changes.toml").read_text(encoding="utf-8"))["change"]
    return [
        Change(release_of(row["since"]), row["says"], tuple(row.get("stories", ())), row.get("without", ""))
        for row in rows
    ]


@dataclass(frozen=True)
class Difference:
    """A story that was answered otherwise before a release."""

    since: Release
    story: Story
    before: str
    now: str

    def without(self, patterns: Iterable[str]) -> tuple[str, str]:
        """Both texts without what the patterns find."""
        texts = [self.before, self.now]
        for pattern in patterns:
            texts = [re.sub(pattern, "", text) for text in texts]
        return texts[0], texts[1]


def differences(stories: Iterable[Story]) -> list[Difference]:
    """Each story that was answered otherwise before a release, if its requests existed before."""
    found = []
    for story in stories:
        for newer, older in itertools.pairwise(RELEASES):
            before, now = text_of(story.source, older), text_of(story.source, newer)
            if before != now and (story.since is None or story.since <= older):
                found.append(Difference(newer, story, before, now))
    return found


def explained(found: Sequence[Difference], known: Sequence[Change]) -> tuple[dict[Change, list[str]], list[Difference]]:
    """The stories of each change, and the differences that no change explains."""
    stories: dict[Change, list[str]] = {change: [] for change in known}
    rest = []
    for one in found:
        here = [change for change in known if change.since == one.since]
        causes = [change for change in here if any(fnmatch.fnmatch(one.story.name, name) for name in change.stories)]
        general = [change for change in here if change.without]
        before, now = one.without(change.without for change in general)
        if before != now and not causes:
            rest.append(one)
        for change in causes or [two for two in general if one.without([two.without]) != (one.before, one.now)]:
            stories[change].append(one.story.name)
    return stories, rest


def page(
    stories: Sequence[Story], known: Sequence[Change], served: Mapping[str, dict[str, dict[str, list[int]]]]
) -> str:
    """The text of the page."""
    by_change, _ = explained(differences(stories), known)
    out = [*paragraphs(HEAD), "", *_table(stories, served)]
    for newer, older in itertools.pairwise(RELEASES):
        out += ["", f"## {name_of(newer)} after {name_of(older)}", ""]
        out += _served(stories, newer, served[name_of(newer)]["apis"], served[name_of(older)]["apis"])
        for change in known:
            if change.since == newer:
                out.append(f"* {change.says} {_names(by_change[change])}")
    return "\n".join(map(wrapped, out)) + "\n"


HEAD = """# What changed between Kafkas

For those whose clients, brokers or tests meet several releases of Apache Kafka. `tools.stories.page` makes this page.

`make record-stories` plays the [stories](../docs/conform.md) on the newest patch of each release, with its default
features. Each sentence is a cause of other answers, with a story that shows it and the number of further ones. What no
story asks is not here. A story file has the answers of each release, and `muster conform --as 4.2` compares with those
of 4.2.
"""


def _table(stories: Sequence[Story], served: Mapping[str, dict[str, dict[str, list[int]]]]) -> list[str]:
    rows = ["| release | patch | APIs | stories it can play | of these as in 4.4 |", "|---|---|---|---|---|"]
    for release in RELEASES:
        known = [story for story in stories if story.since is None or story.since <= release]
        same = sum(text_of(story.source, release) == text_of(story.source) for story in known)
        mine = served[name_of(release)]
        rows.append(f"| {name_of(release)} | {mine['patch']} | {len(mine['apis'])} | {len(known)} | {same} |")
    return rows


def _served(stories: Sequence[Story], release: Release, newer: Versions, older: Versions) -> list[str]:
    """A table of what a release serves and the one before it did not, and the other way round."""
    names = {str(codec.api_key(name[:-7])): name[:-7] for name in codec.MESSAGES if name.endswith("Request")}
    both = [(names.get(key, key), its, older[key]) for key, its in newer.items() if key in older]
    new = [catalogue.level_of(story) for story in stories if story.since == release]
    rows = {
        "new APIs": [names.get(key, key) for key in newer if key not in older],
        "APIs that are gone": [names.get(key, key) for key in older if key not in newer],
        "higher versions": [f"{name} {its[1]}" for name, its, before in both if its[1] > before[1]],
        "lowest versions now": [f"{name} {its[0]}" for name, its, before in both if its[0] > before[0]],
        "stories that need it": [f"`{level}` {new.count(level)}" for level in dict.fromkeys(new)],
    }
    return ["| | |", "|---|---|", *(f"| {title} | {', '.join(its)} |" for title, its in rows.items() if its), ""]


def _names(names: Sequence[str]) -> str:
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"(`{names[0]}`{more})" if names else ""


def main() -> int:
    """Write the page, or check that it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stories = catalogue.stories()
    _, rest = explained(differences(stories), changes())
    for one in rest:
        print(f"changes.toml does not explain {one.story.name} in {name_of(one.since)}", file=sys.stderr)
    text = page(stories, changes(), json.loads(SERVED.read_text(encoding="utf-8")))
    if args.check:
        return int(bool(rest) or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return int(bool(rest))


if __name__ == "__main__":
    sys.exit(main())
