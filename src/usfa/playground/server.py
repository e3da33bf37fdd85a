"""The server process: bind an address, print its URL, and serve until Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import cast

import uvicorn
from starlette.applications import Starlette

from usfa.errors import InputError
from usfa.playground.app import make_app
from usfa.playground.catalogue import Catalogue
from usfa.playground.connections import HttpConnection, SocketConnection
from usfa.playground.limits import Limits, LogLimit, TokenBucket
from usfa.playground.protocol import MESSAGE_BYTES
from usfa.playground.security import Access, is_local
from usfa.threads import threads

__all__ = ["Address", "make_server", "serve", "url_of"]

_HEADER_BYTES = 16384
_LOGGERS = ("asyncio", "uvicorn.error", "usfa.playground.scheduler")
_LOG_LIMIT = LogLimit(TokenBucket(per_second=0.2, burst=20))


@dataclass(frozen=True)
class Address:
    """Host and port of the playground."""

    host: str = "127.0.0.1"
    port: int = 8642  # 0 takes a free port
    allow_remote: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InputError(f"The port is {self.port}; expected 0 to 65535.")
        if not is_local(self.host) and not self.allow_remote:
            raise InputError(
                f"The host is {self.host!r}, which other machines can reach; expected 127.0.0.1, or --allow-remote."
            )

    def bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # asyncio sets TCP_NODELAY only if the protocol is explicit; without it small messages wait 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
            listener.listen(128)  # connections wait from now on until the server is ready
        except OSError as error:
            listener.close()
            raise InputError(
                f"The address {self.host} port {self.port} cannot be used: {error.strerror or error}; try another "
                "--port, or 0 for a free one."
            ) from error
        return listener


def url_of(listener: socket.socket, access: Access) -> str:
    """The URL to open in a browser, including the token."""
    host, port = listener.getsockname()[:2]
    shown = socket.gethostname() if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={access.token}" if access.token else "")


def make_server(app: Starlette, limits: Limits | None = None) -> uvicorn.Server:
    """Make a server that does not compress messages, because frames are JPEGs already."""
    limits = limits or Limits()
    config = uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(HttpConnection, limits)),
        h11_max_incomplete_event_size=_HEADER_BYTES,
        ws=cast(type[asyncio.Protocol], partial(SocketConnection, limits)),
        ws_max_size=MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=limits.unread_seconds,
        ws_ping_timeout=limits.unread_seconds,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_LOG_LIMIT)
    return uvicorn.Server(config)


@threads(1)
def serve(catalogue: Catalogue, address: Address, limits: Limits | None = None, browser: bool = True) -> None:
    """Serve until Ctrl-C."""
    access = Access.for_host(address.host)
    with address.bind() as listener:
        url = url_of(listener, access)
        server = make_server(make_app(catalogue, access, limits), limits)
        print(f"Playground: {url}   (stop with Ctrl-C)", flush=True)
        if access.token:
            print("Everyone with this URL has access. It is not encrypted: use it in a trusted network or a tunnel.")
        if browser:
            threading.Timer(1.0, webbrowser.open, [url]).start()
        with suppress(KeyboardInterrupt):  # uvicorn raises it again after the shutdown
            server.run(sockets=[listener])
