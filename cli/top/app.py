"""The screens of `muster top`, with Textual. A thread reads the cluster; the screens show what it has read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, Protocol

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from muster.cli.top.cells import (
    BY,
    GROUPS,
    MEMBERS,
    OFFSETS,
    STYLES,
    group_cells,
    member_cells,
    offset_cells,
    ordered,
    summary,
)
from muster.cli.top.reader import GroupNow
from muster.client.connection import RequestFailed
from muster.coordinator.http.live_groups import LiveGroups
from muster.protocol.printable import shown

FASTER: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The intervals that the keys + and - choose from, in seconds."""
MAX_SHOWN: Final = 1_000
"""The most groups in the table. Further ones are found by a search."""


class Source(Protocol):
    """What the screens show (`reader.ClusterReader`). Its methods may raise RequestFailed."""

    groups: LiveGroups
    brokers: int

    def read(self) -> None:
        """Read all groups."""

    def read_group(self, group_id: str) -> GroupNow:
        """Read one group."""


def _fill(table: DataTable[Text], rows: Iterable[tuple[Sequence[str], str]], numbers: frozenset[int]) -> None:
    """Show other rows, and keep the cursor at its row. A row has its cells and its style.

    Names are made by clients: they must not control the terminal.
    """
    row, column, top = table.cursor_row, table.cursor_column, table.scroll_offset.y
    table.clear()
    for cells, style in rows:
        justified = [Text(shown(cell), style, justify="right" if place in numbers else "left")
                     for place, cell in enumerate(cells)]  # fmt: skip
        table.add_row(*justified)
    table.move_cursor(row=min(row, table.row_count - 1), column=column, scroll=False)
    table.scroll_to(y=top, animate=False)


class Table(DataTable[Text]):
    """A table whose cursor is a row."""

    def __init__(self, head: Sequence[str], place: str, numbers: Iterable[int] = ()) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True, id=place)
        self._head = head
        self._numbers = frozenset(numbers)

    def on_mount(self) -> None:
        """Make the head."""
        for place, name in enumerate(self._head):
            self.add_column(Text(name, justify="right" if place in self._numbers else "left"))

    def show(self, rows: Iterable[tuple[Sequence[str], str]]) -> None:
        """Show these rows in place of the present ones."""
        _fill(self, rows, self._numbers)


class GroupScreen(Screen[None]):
    """One group: what is the matter, its members, its offsets and its history."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,f10", "app.pop_screen", "Back"),
        ("space", "app.pause", "Pause"),
    ]

    def __init__(self, source: Source, group_id: str) -> None:
        super().__init__()
        self.group_id = group_id
        self._source = source

    def compose(self) -> ComposeResult:
        """The parts of the screen."""
        yield Static(id="title", markup=False)
        with Vertical():
            yield Table(MEMBERS, "members", (3, 4))
            yield Table(OFFSETS, "offsets", (1, 2, 3, 4))
            yield Table(("HISTORY",), "history")
        yield Footer()

    def on_mount(self) -> None:
        """Read the group."""
        self.query_one("#title", Static).update(shown(self.group_id))
        self.refresh_data()

    @work(thread=True, exclusive=True, group="one")
    def refresh_data(self) -> None:
        """Read the group again, in a thread."""
        try:
            now = self._source.read_group(self.group_id)
        except RequestFailed as failure:
            self.app.call_from_thread(self.show_failure, str(failure))
        else:
            self.app.call_from_thread(self.show, now)

    def show(self, now: GroupNow) -> None:
        """Show what was read."""
        found = now.found
        about = "there is no such group" if found is None else f"{found.type}, {found.state}, {found.protocol or '-'}"
        verdict = "" if now.verdict is None else f"\n{now.verdict}"
        self.query_one("#title", Static).update(
            shown(f"{self.group_id}: {about}") + shown(verdict).replace("\\n", "\n")
        )
        self.query_one("#members", Table).show((row, "") for row in ([] if found is None else member_cells(found)))
        self.query_one("#offsets", Table).show((row, "") for row in offset_cells(now.offsets, found))
        self.query_one("#history", Table).show(((line,), "") for line in now.lines)

    def show_failure(self, why: str) -> None:
        """Say why nothing was read."""
        self.query_one("#title", Static).update(shown(f"{self.group_id}: {why}"))


class TopApp(App[None]):
    """The list of groups, and the keys. See the module."""

    TITLE = "muster top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #title, #summary { padding: 0 1; height: auto; max-height: 4; text-style: bold; }
    #search { display: none; height: 3; }
    #search.open { display: block; }
    Table { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("f10,q", "quit", "Quit"),
        ("f1,question_mark", "help", "Help"),
        ("slash,f3,f4", "search", "Search"),
        ("w", "sort('w')", "Worst"),
        ("l", "sort('l')", "Lag"),
        ("n", "sort('n')", "Name"),
        ("m", "sort('m')", "Members"),
        ("t", "trouble", "Only trouble"),
        ("space", "pause", "Pause"),
        ("plus", "slower(1)", "Slower"),
        ("minus", "slower(-1)", "Faster"),
    ]

    def __init__(self, source: Source, where: str, interval_s: float) -> None:
        """`where`: the address of the cluster, for the first line."""
        super().__init__()
        self._source = source
        self._where = where
        self._interval_s = interval_s
        self._order = "worst"
        self._text = ""
        self._only_trouble = False
        self._is_paused = False
        self._failure = ""
        self._names: list[str] = []

    def compose(self) -> ComposeResult:
        """The parts of the first screen."""
        yield Static(id="summary", markup=False)
        yield Input(placeholder="a part of the name", id="search")
        yield Table(GROUPS, "groups", (3, 4, 5, 6, 7))
        yield Footer()

    def on_mount(self) -> None:
        """Read the cluster now, and then again and again."""
        self.query_one("#groups", Table).focus()
        self._timer = self.set_interval(self._interval_s, self._tick)
        self.refresh_data()

    def _tick(self) -> None:
        if not self._is_paused:
            self.refresh_data()
            if isinstance(self.screen, GroupScreen):
                self.screen.refresh_data()

    @work(thread=True, exclusive=True, group="all")
    def refresh_data(self) -> None:
        """Read all groups again, in a thread."""
        try:
            self._source.read()
        except RequestFailed as failure:
            self._failure = str(failure)
        else:
            self._failure = ""
        self.call_from_thread(self.show)

    def show(self) -> None:
        """Show what was read."""
        groups = self._source.groups.groups.values()
        found = ordered(groups, self._order, self._text, only_trouble=self._only_trouble)
        self._names = [one.group for one in found[:MAX_SHOWN]]
        first = self.screen_stack[0]
        first.query_one("#groups", Table).show((group_cells(one), STYLES[one.trouble]) for one in found[:MAX_SHOWN])
        paused = "  (paused)" if self._is_paused else ""
        rest = f"  {len(found) - MAX_SHOWN:,} more groups: search" if len(found) > MAX_SHOWN else ""
        line = self._failure or f"{summary(groups, self._source.brokers)}  by {self._order}"
        first.query_one("#summary", Static).update(shown(f"{self._where}  {line}{rest}{paused}"))

    # ---- keys

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the group at the cursor."""
        if event.data_table.id == "groups" and event.cursor_row < len(self._names):
            self.push_screen(GroupScreen(self._source, self._names[event.cursor_row]))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the groups that are searched for."""
        self._text = event.value
        self.show()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Go back to the table."""
        self.screen_stack[0].query_one("#groups", Table).focus()

    def on_key(self, event: object) -> None:
        """End a search."""
        box = self.query("#search")
        if getattr(event, "key", "") == "escape" and box and box.first().has_class("open"):
            box.first(Input).value = ""
            box.first().remove_class("open")
            self.query_one("#groups", Table).focus()

    def action_search(self) -> None:
        """Open the search, in the list of groups."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        box = self.screen_stack[0].query_one("#search", Input)
        box.add_class("open")
        box.focus()

    def action_sort(self, key: str) -> None:
        """Sort the groups."""
        self._order = BY[key]
        self.show()

    def action_trouble(self) -> None:
        """Show only groups in trouble, or all."""
        self._only_trouble = not self._only_trouble
        self.show()

    def action_pause(self) -> None:
        """Read no more, or again."""
        self._is_paused = not self._is_paused
        self.show()

    def action_slower(self, step: int) -> None:
        """Read less often, or more often."""
        place = min(range(len(FASTER)), key=lambda one: abs(FASTER[one] - self._interval_s)) + step
        self._interval_s = FASTER[min(max(place, 0), len(FASTER) - 1)]
        self._timer.stop()
        self._timer = self.set_interval(self._interval_s, self._tick)
        self.notify(f"each {self._interval_s:g} s")

    def action_help(self) -> None:
        """Say what the keys do."""
        self.notify(HELP, title="muster top", timeout=15)


HELP: Final = (
    "Enter: one group. Esc: back. / F3 F4: search. w l n m: sort by the worst, lag, name, members. "
    "t: only groups in trouble. Space: pause. + -: slower, faster. q F10: quit."
)
