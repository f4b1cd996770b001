"""The console of a server in a headless Chromium, while real clients rebalance."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from tests.conformance.browser import Page, browsing, chromium
from tests.conformance.packages import kept, npm_package
from tests.e2e.aio import consuming, producing
from tests.e2e.ledger import eventually
from tests.support.consumers import stopped
from tests.support.servers import QUICK, MusterServer

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs Chromium")
AXE = "axe-core@4.14.1"
AXE_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
HOSTILE = "<img src=x onerror=alert(1)>\"'&/"
PAGES = ("", "topics", "topics/orders", "cluster", "clients", "transactions", "refused", "groups/checkout")
WIDTHS = ((390, 844), (820, 1180), (1440, 900))
RULE = {"match": {"api": ["OffsetCommit"]}, "then": {"do": "delay", "ms": 1}}
CUT_OFF = """[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth)
    .map((one) => one.innerText.slice(0, 80))"""
"""Tables that are wider than their place."""
PICTURES = os.environ.get("MUSTER_PICTURES")
"""A folder for screenshots. None: no pictures are kept."""


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""

    def fill(folder: Path) -> None:
        npm_package(AXE, AXE_SHA512, folder)

    return (kept("axe-core-4.14.1", fill) / "package" / "axe.min.js").read_text(encoding="utf-8")


async def findings(page: Page, axe: str) -> list[str]:
    """What axe-core finds on the page as it is now."""
    await page.js(f"{axe}; true")
    found = json.loads(
        await page.js("axe.run(document, {resultTypes: ['violations']}).then((one) => JSON.stringify(one.violations))")
    )
    return [f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}" for one in found]


async def door_of(server: MusterServer) -> str:
    """The address of a server's console, from its log."""
    await eventually(lambda: server.log_lines("http is served"))
    address: str = server.log_lines("http is served")[0]["address"]
    return address


async def fetched(address: str, body: Any = None) -> Any:
    def read() -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=30) as answer:
            return json.loads(answer.read())

    return await asyncio.to_thread(read)


def row_of(group: str) -> str:
    """The row of a group in the list, as JavaScript."""
    return f"document.querySelector('tr[data-group=\"' + CSS.escape({json.dumps(group)}) + '\"]')"


SHOWN = "[...document.querySelectorAll('#events li')].map((one) => [one.dataset.id, one.dataset.kind]).reverse()"


async def follow_events(page: Page, base: str, group: str) -> list[str]:
    """Wait until the page has the events of the history, in their order. Returns their kinds."""
    for _ in range(40):
        stored = [
            [one["id"], one["kind"]] for one in (await fetched(f"{base}/console/groups/{group}/history"))["events"]
        ]
        shown = await page.js(SHOWN)
        if shown and shown == stored == await page.js(SHOWN):
            return [kind for _, kind in stored]
        await page.js("new Promise((resolve) => setTimeout(resolve, 100))")
    raise AssertionError(f"the page shows {shown}, and the history is {stored}")


async def walk_through(page: Page, base: str, axe: str, name: str, pages: Sequence[str] = PAGES) -> None:
    """See each page at three widths, light and dark. No page has a finding of axe-core, cuts a text off, or writes an
    error to the console of the browser.
    """
    cut: list[tuple[str, int, str]] = []
    for path in pages:
        await page.size(*WIDTHS[-1])
        await page.colours("light")
        await page.open(f"{base}/#/{path}")
        await page.until(
            "!document.querySelector('main').innerText.includes('is loading') && !document.getElementById('problem')"
        )
        await page.until("document.querySelector('section table, section p, #events li')")
        await page.settled()
        for width, height in WIDTHS:
            await page.size(width, height)
            await page.js("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
            wide = await page.js("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} pixels wide on a window of {width}"
            cut += [(path, width, text) for text in await page.js(CUT_OFF)]
            if PICTURES is not None:
                file = f"{name}-{path.replace('/', '-') or 'groups'}-{width}.png"
                Path(PICTURES, file).write_bytes(await page.picture())  # noqa: ASYNC240  # of a test
            if (width, height) != WIDTHS[1]:
                assert await findings(page, axe) == [], (path, width)
        await page.size(*WIDTHS[0])
        await page.colours("dark")
        if PICTURES is not None:
            file = f"{name}-{path.replace('/', '-') or 'groups'}-dark.png"
            Path(PICTURES, file).write_bytes(await page.picture())  # noqa: ASYNC240  # of a test
        assert await findings(page, axe) == [], (path, "dark")
    await page.colours("light")
    assert cut == []
    assert page.errors == []
    assert all(one.startswith((base, "data:")) for one in page.requests), page.requests


async def type_and_confirm(page: Page, button: str, group: str) -> str:
    """Press a button of the page of a group, type its name, and return what the console says then."""
    await page.js(
        f"[...document.querySelectorAll('main button')].find((one) => one.textContent === {json.dumps(button)}).click()"
    )
    await page.until("document.getElementById('confirm')")
    await page.js(f"document.getElementById('confirm').value = {json.dumps(group)}")
    await page.js("document.querySelector('dialog button.danger').click()")
    await page.until("document.querySelector('dialog[open] h2')?.textContent.match(/Done|Nothing/)")
    text: str = await page.js("document.getElementById('dialog').innerText")
    await page.js("document.querySelector('dialog button').click()")
    return text


async def test_what_the_console_of_a_server_shows_is_its_history(tmp_path: Path, axe: str) -> None:
    properties = {**QUICK, "group.initial.rebalance.delay.ms": "0"}
    options = ["--control", "127.0.0.1:0", "--topic", "orders:6", "--topic", "payments:2"]
    server = MusterServer(tmp_path / "muster", properties, in_memory=True, arguments=options)
    server.start()
    base = await door_of(server)
    try:
        async with browsing() as page, AsyncExitStack() as clients:
            await page.size(*WIDTHS[-1])
            await page.open(f"{base}/")
            await page.until("document.getElementById('stream').textContent === 'live'")
            hostile = await clients.enter_async_context(
                consuming(server.bootstrap, "payments", group_id=HOSTILE, client_id=HOSTILE)
            )
            await hostile.getmany(timeout_ms=10)
            first = await clients.enter_async_context(
                consuming(server.bootstrap, "orders", group_id="checkout", client_id="one")
            )
            producer = await clients.enter_async_context(producing(server.bootstrap))
            for number in range(60):
                await producer.send_and_wait("orders", b"x", partition=number % 6)
            await first.getmany(timeout_ms=500)
            await first.commit()
            for name in (HOSTILE, "checkout"):
                await page.until(row_of(name))
            assert await page.js(f"{row_of(HOSTILE)}.querySelector('a').textContent") == HOSTILE
            # the page of the group, by keys
            await page.press("/", "Slash")
            await page.js("document.getElementById('search').value = 'check'")
            await page.js("document.getElementById('search').dispatchEvent(new Event('input'))")
            await page.until(f"{row_of('checkout')} && !{row_of(HOSTILE)}")
            await page.press("Escape")
            await page.press("j")
            await page.js("document.activeElement.click()")
            await page.until("document.querySelector('h1').textContent === 'checkout'")
            await follow_events(page, base, "checkout")
            # a second member joins and leaves, and the page shows it
            second = AIOKafkaConsumer(
                "orders", bootstrap_servers=server.bootstrap, group_id="checkout", client_id="two",
                heartbeat_interval_ms=50, enable_auto_commit=False,
            )  # fmt: skip
            await second.start()
            await asyncio.gather(first.getmany(timeout_ms=500), second.getmany(timeout_ms=500))
            await page.until("document.querySelectorAll('#chart .hold').length >= 2")
            kinds = await follow_events(page, base, "checkout")
            assert kinds.count("rebalance_completed") == 2
            await stopped(second)
            await page.until("document.querySelector('#chart .gone')")
            await page.until("document.querySelectorAll('#events li.rebalance').length === 3")
            kinds = await follow_events(page, base, "checkout")
            assert "member_left" in kinds
            # why: a click on the last rebalance
            await page.js("[...document.querySelectorAll('#chart .band')].at(-1).dispatchEvent(new Event('click'))")
            text = await page.until("document.getElementById('why-answer').innerText")
            assert "left" in text
            link = await page.js("document.querySelector('#why-answer a').getAttribute('href')")
            await page.open(f"{base}/{link}")
            await page.until("document.getElementById('why-answer').innerText")
            await page.open(f"{base}/#/groups/checkout")
            await page.until("document.querySelector('#events li')")
            # what has members cannot be deleted
            assert "NON_EMPTY_GROUP" in await type_and_confirm(page, "Delete the group", "checkout")
            assert "Nothing was changed" in await type_and_confirm(page, "Delete the group", "another")
            page.errors.clear()  # the refusal is one
            await fetched(f"{base}/v1/faults", RULE)
            await first.commit()
            await walk_through(page, base, axe, "muster", (*PAGES, "faults"))
            await page.open(f"{base}/#/groups/checkout")
            await stopped(first)
            await page.until(
                "[...document.querySelectorAll('.now li')].some((one) => one.textContent.includes('nobody reads'))"
            )
            assert "Done" in await type_and_confirm(page, "Reset offsets", "checkout")
            offsets = await fetched(f"{base}/console/groups/checkout/offsets")
            assert {one["offset"] for one in offsets["offsets"]} == {0}
            assert "Done" in await type_and_confirm(page, "Delete the group", "checkout")
    finally:
        server.stop()


async def test_a_page_asks_for_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret", encoding="utf-8")
    options = ["--http", "127.0.0.1:0", "--http-token", str(token), "--topic", "orders:2"]
    server = MusterServer(tmp_path / "muster", QUICK, in_memory=True, arguments=options)
    server.start()
    try:
        async with browsing() as page:
            await page.open(f"{await door_of(server)}/#/topics")
            for given in ("wrong", "secret"):
                await page.until("document.querySelector('dialog[open] #token')")
                await page.js(f"document.getElementById('token').value = {json.dumps(given)}")
                await page.js("document.querySelector('dialog button').click()")
            await page.until("document.querySelector('tbody')?.textContent.includes('orders')")
    finally:
        server.stop()


LATENESS = """(() => {
    window.late = [];
    new MutationObserver((changes) => {
        for (const one of changes.flatMap((change) => [...change.addedNodes])) {
            if (one.dataset?.id) late.push(Date.now() - new Date(one.querySelector('time').dateTime).getTime());
        }
    }).observe(document.getElementById('events'), {childList: true});
    return true;
})()"""
"""Notes how long after an event the page has it."""


async def test_an_event_is_on_the_page_within_a_fifth_of_a_second(tmp_path: Path) -> None:
    options = ["--http", "127.0.0.1:0", "--topic", "orders:2"]
    server = MusterServer(tmp_path / "muster", QUICK, in_memory=True, arguments=options)
    server.start()
    base = await door_of(server)
    try:
        async with browsing() as page, consuming(server.bootstrap, "orders", group_id="g", client_id="c") as consumer:
            await page.open(f"{base}/#/groups/g")
            await page.until(
                "document.getElementById('stream').textContent === 'live' && document.querySelector('#events li')"
            )
            await page.js(LATENESS)
            for number in range(10):
                other = AIOKafkaConsumer(
                    "orders",
                    bootstrap_servers=server.bootstrap,
                    group_id="g",
                    client_id=f"o{number}",
                    heartbeat_interval_ms=50,
                )
                await other.start()
                await asyncio.gather(consumer.getmany(timeout_ms=100), other.getmany(timeout_ms=100))
                await stopped(other)
            late = sorted(await page.js("late"))
            assert len(late) > 20
            print(f"an event is on the page after {late[len(late) // 2]} ms; at most {late[-1]} ms")
            assert late[len(late) // 2] <= 200
    finally:
        server.stop()
