"""How fast pages are served: the first page, moves, and moves while many others search and watch.

python benchmarks/web.py runs/demo
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect

PORT = 8799
ADDRESS = f"http://127.0.0.1:{PORT}"
SOCKETS = 200
SEARCHES = 50
MOVES = 20
SIMULATIONS = 100


def started(run: Path) -> tuple[subprocess.Popen[str], float]:
    """Start a server; return it, and how many seconds it took until it answered."""
    began = time.perf_counter()
    code = "from zerolab.cli.main import main; raise SystemExit(main())"
    server = subprocess.Popen(
        [sys.executable, "-c", code, "serve", str(run.parent), "--port", str(PORT)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    server.stdout.readline()
    return server, time.perf_counter() - began


async def timed(client: httpx2.AsyncClient, path: str, body: dict[str, Any] | None = None) -> float:
    """Return how many seconds an answer took; raise AssertionError for one that is an error."""
    began = time.perf_counter()
    answer = await (client.get(path) if body is None else client.post(path, json=body))
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - began


async def moves(client: httpx2.AsyncClient, run: Path, game: str) -> list[float]:
    """Return the seconds of moves of the run's network."""
    asked = {"position": {"game": game}, "agent": str(run), "simulations": SIMULATIONS}
    return [await timed(client, "/api/v1/move", {**asked, "seed": n}) for n in range(MOVES)]


@asynccontextmanager
async def load(run: Path, game: str) -> AsyncIterator[list[str]]:
    """Keep websockets open, some of which search all the time; the list gets their errors."""
    errors: list[str] = []
    async with AsyncExitStack() as stack:
        address = f"ws://127.0.0.1:{PORT}/api/v1/live?page="
        opened = [
            await stack.enter_async_context(connect(f"{address}{n}", open_timeout=60))
            for n in range(SOCKETS)
        ]
        tasks = [
            asyncio.create_task(search(socket, run, game, errors)) for socket in opened[:SEARCHES]
        ]
        await asyncio.sleep(5)
        yield errors
        for task in tasks:
            task.cancel()


async def search(socket: ClientConnection, run: Path, game: str, errors: list[str]) -> None:
    """Analyse without an end."""
    number = 0
    while True:
        number += 1
        asked = {"id": number, "do": "analyse", "position": {"game": game}, "agents": [str(run)]}
        await socket.send(json.dumps({**asked, "simulations": 2000}))
        while True:
            message = json.loads(await socket.recv())
            if "error" in message:
                errors.append(message["error"])
            if message.get("done"):
                break


async def measure(run: Path, game: str) -> dict[str, float | int]:
    """Return what was measured."""
    async with httpx2.AsyncClient(base_url=ADDRESS, timeout=60) as client:
        page = await timed(client, "/play")
        first = (await moves(client, run, game))[0]
        alone = await moves(client, run, game)
        async with load(run, game) as errors:
            beside = await moves(client, run, game)
    return {
        "first_page_seconds": page,
        "first_move_seconds": first,
        "move_seconds": median(alone),
        "slowest_move_seconds": max(alone),
        "sockets": SOCKETS,
        "searches": SEARCHES,
        "move_seconds_under_load": median(beside),
        "slowest_move_seconds_under_load": max(beside),
        "errors": len(errors),
    }


def main() -> None:
    """Measure a server of the run, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--game", default="connect_four:6x7")
    options = parser.parse_args()
    server, seconds = started(options.run)
    try:
        found = asyncio.run(measure(options.run, options.game))
    finally:
        server.terminate()
        server.wait()
    print(json.dumps({"address_seconds": seconds, **found}, indent=2))


if __name__ == "__main__":
    main()
