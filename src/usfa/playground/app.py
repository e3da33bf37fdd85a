"""The application: one page, its files, the pictures of objects, and a socket for every visitor."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from usfa.playground.director import Director
from usfa.playground.limits import Allowance, Limits
from usfa.playground.mailbox import Mailbox, Overflow
from usfa.playground.protocol import Failure, Hello, decode
from usfa.playground.repertoire import Repertoire
from usfa.playground.security import Door, Guard
from usfa.playground.session import Session
from usfa.version import __version__

__all__ = ["make_app"]

STATIC = Path(str(resources.files("usfa.playground") / "static"))
_FULL, _TOO_MUCH = 1013, 1008  # codes of RFC 6455 and its registry: try again later, policy violation


def make_app(repertoire: Repertoire, door: Door | None = None, limits: Limits | None = None) -> Starlette:
    """The playground as an ASGI application; its director runs while the application does."""
    director = Director(repertoire)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        director.start()
        yield
        director.stop()

    sockets = _Sockets(director, repertoire, limits or Limits())
    routes = [
        Route("/", _page),
        Route("/objects/{name}.png", _object_picture),
        WebSocketRoute("/socket", sockets.serve),
        Mount("/", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, door=door or Door())], lifespan=lifespan)


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
    """The visitors that are here, and how one of them is served."""

    def __init__(self, director: Director, repertoire: Repertoire, limits: Limits) -> None:
        self._director, self._repertoire, self._limits = director, repertoire, limits
        self._visitors = 0

    async def serve(self, socket: WebSocket) -> None:
        await socket.accept()
        if self._visitors >= self._limits.sessions:
            await socket.close(_FULL, f"All {self._limits.sessions} places are taken; try again later.")
            return
        self._visitors += 1
        mailbox = Mailbox(asyncio.get_running_loop())
        session = self._director.welcome(mailbox)
        mailbox.note(Hello(__version__, self._repertoire.cards()))
        writer = asyncio.create_task(_write(socket, mailbox))
        try:
            await self._read(socket, session)
        finally:
            self._visitors -= 1
            self._director.goodbye(session)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _read(self, socket: WebSocket, session: Session) -> None:
        """Until the visitor leaves, or has said nothing for too long."""
        allowance = Allowance(self._limits.messages_per_second, self._limits.burst)
        warned = False
        while True:
            try:
                received = await asyncio.wait_for(socket.receive(), self._limits.idle_seconds)
            except TimeoutError:
                await socket.close(_TOO_MUCH, "Nothing was heard for a long time.")
                return
            if received["type"] == "websocket.disconnect":
                return
            if not allowance.take():  # not even looked at
                if not warned:
                    session.mailbox.note(Failure("Too many messages; some were not read."))
                warned = True
                continue
            warned = False
            self._hear(session, received.get("text") or received.get("bytes") or b"")

    def _hear(self, session: Session, raw: str | bytes) -> None:
        try:
            self._director.tell(session, decode(raw))
        except InputError as error:
            session.mailbox.note(Failure(str(error)))


async def _write(socket: WebSocket, mailbox: Mailbox) -> None:
    try:
        while True:
            mail = await mailbox.next()
            if isinstance(mail, str):
                await socket.send_text(mail)
            else:
                await socket.send_bytes(mail)
    except Overflow:
        await socket.close(_TOO_MUCH, "Too many answers were not read.")
    except (WebSocketDisconnect, RuntimeError):
        return  # the visitor has left; the reader notices
