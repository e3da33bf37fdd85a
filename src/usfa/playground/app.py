"""The web application: the page, its files, pictures of objects, and one socket per page."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from PIL import Image
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from usfa.environments.room import OBJECTS
from usfa.environments.room.textures import BOXES, sprite
from usfa.errors import InputError
from usfa.playground.catalogue import Catalogue
from usfa.playground.outbox import Outbox, Overflow
from usfa.playground.protocol import ErrorMessage, Hello, decode
from usfa.playground.scheduler import Scheduler
from usfa.playground.security import Access, AccessMiddleware
from usfa.playground.session import Session
from usfa.version import __version__

__all__ = ["Limits", "make_app"]

STATIC = Path(str(resources.files("usfa.playground") / "static"))
_TRY_AGAIN_LATER, _POLICY_VIOLATION = 1013, 1008  # close codes of RFC 6455 and its registry


@dataclass(frozen=True)
class Limits:
    """Limits on the use of a playground; messages also have a maximum size, see the protocol."""

    sessions: int = 16
    """Pages connected at the same time."""
    messages_per_second: float = 60.0
    """Sustained rate per page."""
    burst: int = 120
    """Messages per page that may arrive at once."""
    idle_seconds: float = 150.0
    """Close a connection without messages for this time; an open page sends one every few seconds."""

    def __post_init__(self) -> None:
        for name in ("sessions", "messages_per_second", "burst", "idle_seconds"):
            if not getattr(self, name) > 0:
                raise InputError(f"The limit {name} is {getattr(self, name)}; expected a number above 0.")


class TokenBucket:
    """Rate limit: a bucket that fills with time, from which every message takes one token."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._tokens, self._filled_at = float(burst), clock()

    def take(self) -> bool:
        """Take a token; False if there is none."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def make_app(catalogue: Catalogue, access: Access | None = None, limits: Limits | None = None) -> Starlette:
    """The playground as an ASGI application; its scheduler runs during the application's lifespan."""
    scheduler = Scheduler(catalogue)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        scheduler.start()
        yield
        scheduler.stop()

    sockets = _Sockets(scheduler, catalogue, limits or Limits())
    routes = [
        Route("/", _page),
        Route("/objects/{name}.png", _object_picture),
        WebSocketRoute("/socket", sockets.serve),
        Mount("/", StaticFiles(directory=STATIC)),
    ]
    return Starlette(
        routes=routes, middleware=[Middleware(AccessMiddleware, access=access or Access())], lifespan=lifespan
    )


async def _page(_: Request) -> Response:
    return FileResponse(STATIC / "index.html")


async def _object_picture(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in {kind.name for kind in OBJECTS}:
        return PlainTextResponse("There is no such object.\n", 404)
    return Response(_sprite_png(name), media_type="image/png")


@cache
def _sprite_png(name: str) -> bytes:
    number = next(index for index, kind in enumerate(OBJECTS) if kind.name == name)
    width, low, high = BOXES[number]
    scale = 96 / max(width, high - low)
    shape = (round(width * scale), round((high - low) * scale))
    content = io.BytesIO()
    Image.fromarray(sprite(number)).resize(shape).save(content, "PNG", optimize=True)
    return content.getvalue()


class _Sockets:
    """Connects every page's socket to a session."""

    def __init__(self, scheduler: Scheduler, catalogue: Catalogue, limits: Limits) -> None:
        self._scheduler, self._catalogue, self._limits = scheduler, catalogue, limits
        self._count = 0

    async def serve(self, socket: WebSocket) -> None:
        await socket.accept()
        if self._count >= self._limits.sessions:
            await socket.close(_TRY_AGAIN_LATER, f"All {self._limits.sessions} sessions are in use; try again later.")
            return
        self._count += 1
        outbox = Outbox(asyncio.get_running_loop())
        session = self._scheduler.connect(outbox)
        outbox.send(Hello(__version__, self._catalogue.agent_infos()))
        writer = asyncio.create_task(_write(socket, outbox))
        try:
            await self._read(socket, session)
        finally:
            self._count -= 1
            self._scheduler.disconnect(session)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _read(self, socket: WebSocket, session: Session) -> None:
        """Handle messages until the page disconnects or stays idle for too long."""
        bucket = TokenBucket(self._limits.messages_per_second, self._limits.burst)
        warned = False
        while True:
            try:
                received = await asyncio.wait_for(socket.receive(), self._limits.idle_seconds)
            except TimeoutError:
                await socket.close(_POLICY_VIOLATION, "The connection was idle for too long.")
                return
            if received["type"] == "websocket.disconnect":
                return
            if bucket.take():
                warned = False
                self._handle(session, received.get("text") or received.get("bytes") or b"")
            elif not warned:  # dropped without parsing
                session.outbox.send(ErrorMessage("Too many messages; some were ignored."))
                warned = True

    def _handle(self, session: Session, raw: str | bytes) -> None:
        try:
            self._scheduler.handle(session, decode(raw))
        except InputError as error:
            session.outbox.send(ErrorMessage(str(error)))


async def _write(socket: WebSocket, outbox: Outbox) -> None:
    try:
        while True:
            message = await outbox.next()
            if isinstance(message, str):
                await socket.send_text(message)
            else:
                await socket.send_bytes(message)
    except Overflow:
        await socket.close(_POLICY_VIOLATION, "Too many replies were not read.")
    except (WebSocketDisconnect, RuntimeError):
        return  # the page has disconnected, which ends _read
