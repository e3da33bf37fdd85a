"""Access control: reject requests from pages of other sites, and require a token beyond localhost.

Another site can make a user's browser connect to localhost, either openly (foreign Origin) or through a host name of
its own that resolves to this machine (foreign Host, "DNS rebinding").
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

__all__ = ["Access", "AccessMiddleware", "is_local"]

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server on this host."""
    return host in _LOCAL


@dataclass(frozen=True)
class Access:
    """Host names that the server answers to, and the token that it requires beyond localhost."""

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)

    @classmethod
    def for_host(cls, host: str) -> Access:
        """Access to a server on this host: with a new token, unless the host is local."""
        return cls(host, None if is_local(host) else secrets.token_urlsafe(24))

    def allows_host(self, host: str | None) -> bool:
        """Whether a Host header names this server."""
        name = _host_name(host)
        if name is None:
            return False
        if self.token is None:
            return name in _LOCAL
        return name in {*_LOCAL, self.host, socket.gethostname().lower()} or _is_address(name)

    def allows_token(self, token: str | None) -> bool:
        return self.token is None or hmac.compare_digest((token or "").encode(), self.token.encode())


def _host_name(host: str | None) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname if host else None
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class AccessMiddleware:
    """Responds 400 to a foreign Host, 403 to a foreign Origin or a missing token."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        error = self._error(scope, headers)
        if error is not None:
            await _reject(scope, receive, send, *error)
        elif scope["type"] == "http" and self._access.token is not None and _query_token(scope) is not None:
            await _set_cookie(scope, receive, send)
        else:
            await self._app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)

    def _error(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if not self._access.allows_host(headers.get("host")):
            return 400, "The Host header names another server."
        origin = headers.get("origin")
        if origin is None and scope["type"] == "websocket":
            return 403, "The Origin header is missing."
        if origin is not None and origin not in {f"{scheme}://{headers['host']}" for scheme in ("http", "https")}:
            return 403, "The Origin header names another site."
        if not self._access.allows_token(_query_token(scope) or _cookie_token(scope, headers)):
            return 403, "The token is missing or wrong; open the address that `usfa play` printed."
        return None


async def _set_cookie(scope: Scope, receive: Receive, send: Send) -> None:
    """Move the token from the URL, which is displayed and stored in the history, into a cookie.

    A strict cookie would not be sent after the redirect if the link was in a mail or on another site. A lax one is, but
    only when a page is opened; other requests from other sites, sockets included, are also rejected by their Origin.
    """
    response = RedirectResponse("/", status_code=303)
    response.set_cookie(_cookie_name(scope), _query_token(scope) or "", httponly=True, samesite="lax")
    await response(scope, receive, _with_headers(send))


def _query_token(scope: Scope) -> str | None:
    found = parse_qs(scope["query_string"].decode("latin-1")).get("token")
    return found[0] if found else None


def _cookie_name(scope: Scope) -> str:
    """Name with the port, because browsers send the cookies of a host to all its ports."""
    return f"usfa-token-{(scope.get('server') or ('', 0))[1]}"


def _cookie_token(scope: Scope, headers: Headers) -> str | None:
    cookie, name = SimpleCookie(), _cookie_name(scope)
    try:
        cookie.load(headers.get("cookie", ""))
    except Exception:  # malformed cookies raise various errors
        return None
    return cookie[name].value if name in cookie else None


async def _reject(scope: Scope, receive: Receive, send: Send, status: int, reason: str) -> None:
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await WebSocketClose(1008, reason)(scope, receive, send)
        return
    response = PlainTextResponse(reason + "\n", status)
    await response(scope, receive, send if scope["type"] == "websocket" else _with_headers(send))


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *own]}
        await send(message)

    return send_with_headers
