"""Starting the playground: a port, a door, and the address to open."""

from __future__ import annotations

import socket
import threading
import webbrowser
from contextlib import suppress
from dataclasses import dataclass

import torch
import uvicorn
from starlette.applications import Starlette

from usfa.errors import InputError
from usfa.playground.app import make_app
from usfa.playground.limits import Limits
from usfa.playground.protocol import MESSAGE_BYTES
from usfa.playground.repertoire import Repertoire
from usfa.playground.security import Door, is_local

__all__ = ["Address", "make_server", "serve"]


@dataclass(frozen=True)
class Address:
    """Where the playground is reached."""

    host: str = "127.0.0.1"
    port: int = 8642  # 0 takes a free one
    allow_remote: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InputError(f"The port is {self.port}; expected 0 to 65535.")
        if not is_local(self.host) and not self.allow_remote:
            raise InputError(
                f"The host {self.host!r} lets other machines in; expected --allow-remote with it, or 127.0.0.1."
            )

    def bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # Said in full, because only then asyncio sends small messages at once: otherwise a thought waits 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
            listener.listen(128)  # from here on nobody is refused; the server answers when it is ready
        except OSError as error:
            listener.close()
            raise InputError(
                f"The address {self.host} port {self.port} cannot be used: {error.strerror or error}; expected another "
                "--port, or 0 for a free one."
            ) from error
        return listener


def url_of(listener: socket.socket, door: Door) -> str:
    """What to open in a browser, the token included."""
    host, port = listener.getsockname()[:2]
    shown = socket.gethostname() if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={door.token}" if door.token else "")


def make_server(app: Starlette) -> uvicorn.Server:
    """Frames are JPEGs: to compress them again would only cost time."""
    config = uvicorn.Config(
        app,
        ws="websockets-sansio",
        ws_max_size=MESSAGE_BYTES,
        ws_per_message_deflate=False,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def serve(repertoire: Repertoire, address: Address, limits: Limits | None = None, browser: bool = True) -> None:
    """Serve until Ctrl-C."""
    torch.set_num_threads(1)  # small networks, many visitors: threads would only wait for each other
    door = Door.open_to(address.host)
    with address.bind() as listener:
        url = url_of(listener, door)
        server = make_server(make_app(repertoire, door, limits))
        print(f"Playground: {url}   (Ctrl-C ends it)", flush=True)
        if door.token:
            print("Anybody with this address can use it, and it is not encrypted: trust the network, or use a tunnel.")
        if browser:
            threading.Timer(1.0, webbrowser.open, [url]).start()
        with suppress(KeyboardInterrupt):  # uvicorn passes it on when everything has ended
            server.run(sockets=[listener])
