"""Errors as pages see them: a status and one line that says what was expected."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from zerolab.core.errors import UserError, one_line, quoted


class ForbiddenError(UserError):
    """Something that the server does not do for this request: status 403."""


class MissingError(UserError):
    """Something that is not there: status 404."""


class BusyError(UserError):
    """More is asked for at once than the server does: status 503."""


_STATUS = {ForbiddenError: 403, MissingError: 404, BusyError: 503}


def status_of(error: UserError) -> int:
    """Return the status of the answer to a request that cannot be served."""
    return next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)


def error_message(error: Exception) -> str:
    """Return an error's message for a page, in one line; a defect's details are left out."""
    if isinstance(error, UserError):
        return "; ".join(str(error).splitlines())
    return f"this has failed: {one_line(error)}"


def add_handlers(app: FastAPI) -> None:
    """Let every error be answered by ``{"error": "one line"}``."""
    app.add_exception_handler(UserError, _of_user)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(ClientDisconnect, _of_client)
    app.add_exception_handler(Exception, _of_server)


def describe_mistakes(error: RequestValidationError) -> str:
    """Return one line on what is wrong with a request, the first three mistakes."""
    lines = []
    for mistake in error.errors()[:3]:
        place = ".".join(str(part) for part in mistake["loc"] if part != "body") or "the request"
        lines.append(f"{place} = {quoted(mistake.get('input'))}: {one_line(mistake['msg'])}")
    return "; ".join(lines)


def _answer(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status)


async def _of_user(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, UserError)
    return _answer(status_of(error), error_message(error))


async def _of_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return _answer(422, describe_mistakes(error))


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = "there is no such page" if error.status_code == 404 else str(error.detail)
    return _answer(error.status_code, message)


async def _of_client(request: Request, error: Exception) -> JSONResponse:
    return _answer(400, "the request did not arrive, or is too large")


async def _of_server(request: Request, error: Exception) -> JSONResponse:
    return _answer(500, "the server has failed; its terminal says how")
