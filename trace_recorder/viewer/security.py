"""Access to the viewer's server: a request must have the token, be for the server's address, and come from no other
page.

The server listens on the loopback, where every program and every open web page can reach it. So the printed address has
a token, which a cookie keeps. `loopback.py` refuses requests for other addresses and from other pages. The headers of
each answer keep recorded text from running as code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from secrets import compare_digest

from starlette.datastructures import URL, Headers, MutableHeaders, QueryParams
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trace_recorder.loopback import HOST, why_refused
from trace_recorder.viewer.one_file import content_security_policy, page_with

_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


_NO_ACCESS = "the token is missing or wrong: open the address that trace-recorder view printed."


@dataclass(frozen=True, slots=True)
class Access:
    """The token that a request needs, and the port of the server."""

    token: str
    port: int

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie. Cookies ignore ports, so two servers need two names."""
        return f"trace_recorder_{self.port}"

    def is_token(self, text: str | None) -> bool:
        """Return whether a text is the token."""
        return text is not None and compare_digest(text.encode("utf-8", "replace"), self.token.encode())


class AccessControl:
    """An ASGI application that refuses requests without access, and passes on all other requests."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request. Pass on the messages about the server's start and end. Ignore everything else."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._answer(scope, Headers(scope=scope))
            await (answer or self._app)(scope, receive, _with_headers(send))

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """Return a refusal, or the redirect to the address without the token, or None if the request may pass."""
        if (reason := why_refused(self._access.port, scope["method"], headers.get)) is not None:
            return _refusal_for(headers, 403, reason)
        query = QueryParams(scope["query_string"])
        if scope["path"] == "/" and "token" in query and self._access.is_token(query["token"]):
            return self._entrance(scope)
        if not self._has_token(headers):
            return _refusal_for(headers, 401, _NO_ACCESS)
        if scope["method"] == "POST" and not _is_json(headers):
            return refusal(415, "content of the type application/json is expected.")
        return None

    def _entrance(self, scope: Scope) -> Response:
        """Put the token into a cookie, and redirect to the address without the token."""
        url = URL(scope=scope).remove_query_params("token")
        address = "/"
        if url.query:
            address += f"?{url.query}"
        answer = RedirectResponse(address, status_code=303)
        answer.set_cookie(self._access.cookie, self._access.token, httponly=True, samesite="strict", path="/")
        return answer

    def _has_token(self, headers: Headers) -> bool:
        kind, _, text = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._access.is_token(text.strip())
        return any(map(self._access.is_token, _cookies(headers.getlist("cookie"), self._access.cookie)))


def _cookies(headers: Iterable[str], name: str) -> list[str]:
    values = []
    for header in headers:
        try:
            cookies = SimpleCookie(header)
        except CookieError:
            continue
        if name in cookies:
            values.append(cookies[name].value)
    return values


def _is_json(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _refusal_for(headers: Headers, status: int, error: str) -> Response:
    """Return a refusal. A browser that opens an address gets the page without a run, which shows the error."""
    if "text/html" not in headers.get("accept", ""):
        return refusal(status, error)
    return HTMLResponse(page_with({"kind": "refused", "error": error}), status_code=status)


def refusal(status: int, error: str) -> Response:
    """Return an error with a sentence that says why."""
    return JSONResponse({"error": error}, status_code=status)


def _with_headers(send: Send) -> Send:
    """Return a `send` that adds the headers that every answer has."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update({**_HEADERS, "content-security-policy": content_security_policy("'self'")})
        await send(message)

    return sending
