"""Work for a request that ends when the page that asked for it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from zerolab.core.errors import UserError

_Result = TypeVar("_Result")


async def unless_left(request: Request, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of some work; cancel it as soon as the connection has ended.

    Raises UserError then, which nobody reads.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise UserError("the page has left")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()


async def _left(request: Request) -> None:
    """Return when the connection has ended; the body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
