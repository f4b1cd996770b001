"""A headless Chromium, driven by its DevTools protocol over two pipes."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

PATIENCE_S = 20.0
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--mute-audio", "--hide-scrollbars",
)  # fmt: skip


def chromium() -> str | None:
    """The browser's program; None without one."""
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


class Page:
    """One page of the browser."""

    def __init__(self, send: Callable[..., Any], session: str) -> None:
        self._send = send
        self._session = session
        self._loaded: list[asyncio.Future[None]] = []
        self.errors: list[str] = []
        """What the page has logged as an error, and exceptions."""
        self.requests: list[str] = []
        """The addresses that the page has asked."""

    async def call(self, method: str, **given: Any) -> Any:
        """Call a method of the protocol."""
        return await self._send(method, given, self._session)

    def note(self, method: str, given: dict[str, Any]) -> None:
        """Note an event of the page."""
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(given["exceptionDetails"].get("exception", given["exceptionDetails"])))
        elif method == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.errors.append(given["entry"]["text"])
        elif method == "Page.loadEventFired":
            for one in self._loaded:
                if not one.done():
                    one.set_result(None)
            self._loaded.clear()
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])

    async def open(self, url: str) -> None:
        """Go to an address."""
        loaded = asyncio.get_running_loop().create_future()
        self._loaded.append(loaded)
        answer = await self.call("Page.navigate", url=url)
        if "loaderId" in answer:  # otherwise only the part after # has changed
            async with asyncio.timeout(PATIENCE_S):
                await loaded

    async def js(self, code: str) -> Any:
        """The value of an expression, which may be a promise."""
        answer = await self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{code[:200]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def until(self, code: str) -> Any:
        """Wait until an expression is true, and return its value."""
        waiting = f"""new Promise((resolve) => {{
            const look = () => {{
                let found = null;
                try {{ found = ({code}); }} catch {{ /* it is not there yet */ }}
                if (found) resolve(found); else setTimeout(look, 20);
            }};
            look();
        }})"""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self.js(waiting)
        except TimeoutError:
            text = await self.js("document.body.innerText.slice(0, 1500)")
            raise AssertionError(f"never true: {code}; the page: {text}; errors: {self.errors}") from None

    async def settled(self) -> None:
        """Wait until no element was changed for a while: animations change colours."""
        await self.js("""new Promise((resolve) => { let timer = setTimeout(resolve, 1300);
            new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(resolve, 1300); })
                .observe(document.getElementById('recent') ?? document.body, {childList: true}); })""")

    async def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                        mobile=width < 600)  # fmt: skip

    async def colours(self, scheme: str) -> None:
        """Prefer "light" or "dark" pages."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def picture(self) -> bytes:
        """The whole page as a PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot", captureBeyondViewport=True))["data"])

    async def press(self, key: str, code: str = "", text: str | None = None) -> None:
        """Press a key."""
        given = {"key": key, "code": code or key}
        if len(key) == 1:
            given["text"] = text or key
        await self.call("Input.dispatchKeyEvent", type="keyDown", **given)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=code or key)


@asynccontextmanager
async def browsing() -> AsyncIterator[Page]:
    """Start a browser, and open a page."""
    program = chromium()
    assert program is not None
    to_read, to_write = os.pipe(), os.pipe()
    folder = tempfile.mkdtemp(prefix="muster-browser-")
    # the browser reads commands from descriptor 3, and writes answers to descriptor 4
    begin = f"import os, sys; os.dup2({to_read[0]}, 3); os.dup2({to_write[1]}, 4); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", begin, program, *FLAGS, f"--user-data-dir={folder}"]
    process = await asyncio.create_subprocess_exec(
        *command,
        pass_fds=(to_read[0], to_write[1]),
        stderr=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    os.close(to_read[0])
    os.close(to_write[1])
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(to_write[0], "rb")
    )
    numbers, answers, pages = itertools.count(1), dict[int, asyncio.Future[Any]](), dict[str, Page]()

    async def send(method: str, given: dict[str, Any], session: str | None = None) -> Any:
        number = next(numbers)
        answered = answers[number] = loop.create_future()
        message = {"id": number, "method": method, "params": given}
        if session is not None:
            message["sessionId"] = session
        os.write(to_read[1], json.dumps(message).encode() + b"\0")
        try:
            async with asyncio.timeout(2 * PATIENCE_S):
                return await answered
        finally:
            del answers[number]

    async def receive() -> None:
        while True:
            message = json.loads((await reader.readuntil(b"\0"))[:-1])
            if "id" in message:
                answered = answers.get(message["id"])
                if answered is not None and not answered.done():
                    if "error" in message:
                        answered.set_exception(AssertionError(str(message["error"])))
                    else:
                        answered.set_result(message["result"])
            elif message.get("sessionId") in pages:
                pages[message["sessionId"]].note(message["method"], message["params"])

    receiving = asyncio.ensure_future(receive())
    try:
        target = (await send("Target.createTarget", {"url": "about:blank"}))["targetId"]
        session = (await send("Target.attachToTarget", {"targetId": target, "flatten": True}))["sessionId"]
        page = pages[session] = Page(send, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.call(f"{domain}.enable")
        yield page
    finally:
        receiving.cancel()
        process.kill()
        await process.wait()
        transport.close()
        os.close(to_read[1])
        shutil.rmtree(folder, ignore_errors=True)
