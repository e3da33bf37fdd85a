"""The web application: the page, its files, pictures of objects, and one socket per page."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
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
from usfa.playground.limits import Limits, TokenBucket
from usfa.playground.outbox import Outbox, Overflow
from usfa.playground.protocol import ErrorMessage, Hello, decode
from usfa.playground.scheduler import Scheduler
from usfa.playground.security import Access, AccessMiddleware
from usfa.playground.session import Session
from usfa.version import __version__

__all__ = ["make_app"]

STATIC = Path(str(resources.files("usfa.playground") / "static"))
_TRY_AGAIN_LATER, _POLICY_VIOLATION = 1013, 1008  # close codes of RFC 6455 and its registry


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
        self._places = asyncio.Semaphore(limits.sessions)
        self._waiting = 0

    async def serve(self, socket: WebSocket) -> None:
        await socket.accept()
        if not await self._take_place():
            await _close(socket, _TRY_AGAIN_LATER, f"All {self._limits.sessions} sessions are in use; try again later.")
            return
        try:
            await self._serve(socket)
        finally:
            self._places.release()

    async def _take_place(self) -> bool:
        """Wait in line for a session, so that pages that reconnect fastest do not get all free ones."""
        if self._waiting >= self._limits.sessions:
            return False
        self._waiting += 1
        try:
            await asyncio.wait_for(self._places.acquire(), self._limits.waiting_seconds)
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    async def _serve(self, socket: WebSocket) -> None:
        outbox = Outbox(asyncio.get_running_loop())
        session = self._scheduler.connect(outbox)
        outbox.send(Hello(__version__, self._catalogue.agent_infos()))
        writer = asyncio.create_task(_write(socket, outbox))
        try:
            await self._read(socket, session)
        finally:
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
                await _close(socket, _POLICY_VIOLATION, "The connection was idle for too long.")
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
        await _close(socket, _POLICY_VIOLATION, "Too many replies were not read.")
    except (WebSocketDisconnect, RuntimeError):
        return  # the page has disconnected, which ends _read


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):  # it is closed already
        await socket.close(code, reason)
