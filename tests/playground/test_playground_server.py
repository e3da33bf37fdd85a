"""A real server on a real port: access, sessions, and hostile clients."""

import http.client
import json
import random
import re
import socket as socket_module
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playground_fakes import unpack
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from usfa.errors import InputError
from usfa.playground import Address, Limits
from usfa.playground.app import STATIC
from usfa.playground.protocol import MESSAGE_BYTES
from usfa.playground.security import Access

PAGES = sorted(path for path in STATIC.rglob("*") if path.is_file())


def get(server, path="/", **headers):
    """Status, headers and body; headers that are None are not sent."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in {"Host": f"127.0.0.1:{server.port}", **headers}.items():
        if value is not None:
            connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, body


@contextmanager
def visit(server, origin=None, headers=None, host=None):
    address = f"ws://{host or '127.0.0.1'}:{server.port}/socket"
    own = server.url.rstrip("/") if origin is None else origin
    options = {"compression": None, "open_timeout": 20, "close_timeout": 1}
    with connect(address, origin=own or None, additional_headers=headers, **options) as socket:
        yield socket


def post(socket, **message):
    socket.send(json.dumps(message))


def receive(socket, kind, timeout=60):
    """The next message of a kind; earlier ones are dropped."""
    while True:
        received = socket.recv(timeout)
        if isinstance(received, str) and json.loads(received)["type"] == kind:
            return json.loads(received)


def receive_frame(socket, timeout=60):
    while not isinstance(received := socket.recv(timeout), bytes):
        pass
    return unpack(received)[0]


def closing_of(socket):
    """The close frame of the server."""
    with pytest.raises(ConnectionClosed) as closed:
        receive(socket, "nothing")
    return closed.value.rcvd


# --- pages ---


def test_the_page_and_everything_it_is_made_of(server):
    status, headers, body = get(server)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"usfa" in body
    for path in PAGES:
        status, _, body = get(server, "/" + path.relative_to(STATIC).as_posix())
        assert (status, body) == (200, path.read_bytes())


def test_pictures_of_objects(server):
    status, headers, body = get(server, "/objects/tv.png")
    assert (status, headers["content-type"], body[:4]) == (200, "image/png", b"\x89PNG")
    assert get(server, "/objects/secret.png")[0] == 404


@pytest.mark.parametrize("path", ["/../app.py", "/js/../../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/nothing"])
def test_nothing_else_is_served(server, path):
    assert get(server, path)[0] in {400, 404}


def test_the_security_policy_forbids_other_servers(server):
    for path in ("/", "/js/main.js", "/nothing"):
        _, headers, _ = get(server, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_file_of_the_page_names_another_server(path):
    text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|//[a-z]+\.[a-z]", text)
    assert not re.search(r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write", text)


# --- access ---


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", None, "localhost@x"]
)
def test_a_foreign_host_gets_400(server, host):
    assert get(server, Host=host)[0] == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_names_of_this_machine_are_welcome(server, host):
    assert get(server, Host=f"{host}:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1", "https://localhost.evil.example"]
)
def test_a_foreign_origin_gets_403(server, origin):
    assert get(server, Origin=origin)[0] == 403
    with pytest.raises(InvalidStatus) as refused, visit(server, origin):
        pass
    assert refused.value.response.status_code == 403


def test_a_socket_without_an_origin_is_not_a_page_of_ours(server):
    with pytest.raises(InvalidStatus) as refused, visit(server, origin=""):
        pass
    assert refused.value.response.status_code == 403


def test_a_socket_under_a_foreign_host_is_refused(server):
    with pytest.raises(InvalidStatus) as refused, visit(server, headers={"Host": "evil.example"}):
        pass
    assert refused.value.response.status_code == 400


def test_beyond_localhost_a_token_is_asked_for(serve):
    server = serve(access=Access("0.0.0.0", "secret"))
    assert get(server)[0] == 403
    assert get(server, "/js/main.js")[0] == 403
    assert get(server, "/?token=wrong")[0] == 403
    assert get(server, Cookie=f"usfa-token-{server.port}=wrong")[0] == 403
    assert get(server, Cookie="\x01;;=\xff")[0] == 403
    status, headers, _ = get(server, "/?token=secret")
    assert (status, headers["location"]) == (303, "/")  # the secret leaves the address bar
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=lax" in headers["set-cookie"]  # a strict one is not sent after the redirect of a link in a mail
    assert headers["set-cookie"].startswith(f"usfa-token-{server.port}=")  # other ports of the host have their own
    assert get(server, Cookie="usfa-token-1=secret")[0] == 403
    cookie = headers["set-cookie"].split(";")[0]
    assert get(server, Cookie=cookie)[0] == 200
    assert get(server, Cookie=cookie, Host=f"192.168.0.7:{server.port}")[0] == 200
    assert get(server, Cookie=cookie, Host="evil.example")[0] == 400
    assert get(server, Cookie=cookie, Origin="http://evil.example")[0] == 403
    with pytest.raises(InvalidStatus), visit(server):
        pass
    with visit(server, headers={"Cookie": cookie}) as socket:
        receive(socket, "hello")


def test_other_machines_are_only_let_in_on_purpose():
    with pytest.raises(InputError, match="--allow-remote"):
        Address("0.0.0.0")
    assert Address("0.0.0.0", allow_remote=True).host == "0.0.0.0"
    assert Access.for_host("127.0.0.1").token is None
    assert len(Access.for_host("0.0.0.0").token) >= 32
    assert "secret" not in repr(Access("0.0.0.0", "secret"))


def test_a_port_that_is_taken_is_told_in_a_sentence(server):
    with pytest.raises(InputError, match=f"port {server.port} cannot be used"):
        Address(port=server.port).bind()


# --- sessions ---


def test_every_client_has_a_session_of_its_own(server):
    with visit(server) as one, visit(server) as two:
        for socket, task in ((one, [1, 0, 0, 0]), (two, [0, 0, 0, -1])):
            assert [agent["name"] for agent in receive(socket, "hello")["agents"]] == ["small", "small-uvfa", "trip"]
            post(socket, type="setup", players=[{"agent": "small"}], task=task, picture_size=64)
            receive(socket, "session")
        assert receive_frame(one)["task"] == [1, 0, 0, 0]
        assert receive_frame(two)["task"] == [0, 0, 0, -1]


def test_a_new_task_is_answered_with_a_decision(server):
    with visit(server) as socket:
        post(socket, type="setup", players=[{"agent": "small"}], picture_size=64)
        receive_frame(socket)
        post(socket, type="task", w=[0, -1, 0.5, 0])
        while (frame := receive_frame(socket))["task"] != [0, -1, 0.5, 0] or "decision" not in frame["players"][0]:
            pass


def test_frames_come_as_they_are_not_deflated(server):
    with connect(f"ws://127.0.0.1:{server.port}/socket", origin=server.url.rstrip("/")) as socket:  # offers deflate
        assert socket.protocol.extensions == []


def test_a_full_server_rejects_clients_until_one_leaves(serve):
    server = serve(limits=Limits(sessions=2, waiting_seconds=0.1))
    with visit(server) as one:
        receive(one, "hello")
        with visit(server) as two:
            receive(two, "hello")
            with visit(server) as three:
                closing = closing_of(three)
            assert closing.code == 1013
            assert "sessions are in use" in closing.reason
        for _ in range(100):
            try:
                with visit(server) as three:
                    receive(three, "hello")
                break
            except ConnectionClosed:
                continue
        else:
            pytest.fail("no session became free")


def test_an_idle_client_is_disconnected(serve):
    server = serve(limits=Limits(idle_seconds=0.2))
    with visit(server) as socket:
        assert "idle for too long" in closing_of(socket).reason


def test_excess_messages_are_ignored_and_the_client_stays(serve):
    server = serve(limits=Limits(messages_per_second=20, burst=10))
    with visit(server) as socket:
        for number in range(200):
            post(socket, type="ping", id=number)
        assert "Too many messages" in receive(socket, "error")["message"]
        number = 1000
        while True:  # the bucket fills again
            post(socket, type="ping", id=number)
            try:
                if receive(socket, "pong", timeout=0.3)["id"] >= 1000:
                    break
            except TimeoutError:
                number += 1


def test_a_message_that_is_too_large_ends_the_connection_and_nothing_else(server):
    with visit(server) as socket:
        socket.send("x" * (MESSAGE_BYTES + 1))
        assert closing_of(socket).code == 1009
    with visit(server) as socket:
        receive(socket, "hello")


# --- hostile messages ---


KINDS = ("task", "setup", "reset", "candidates", "step", "rate", "heatmap", "picture", "speed", "pause", "exec")
NAMES = (
    *("type", "w", "players", "seed", "candidates", "player", "reward", "steps", "x", "y", "quantity", "size"),
    *("factor", "paused", "id", "picture_size", "__class__", "constructor"),
)
VALUES = (
    *(None, True, -1, 2**70, 1e308, -1e-320, "", "A" * 300, "💥" * 50),
    *("__import__('os').system('true')", "../../etc/passwd", "${jndi:ldap://x}"),
    *([], {}, [[]], [None], [1] * 100, [[1, 0]] * 100, {"agent": "../x"}, [{"agent": "small"}] * 3),
)


def hostile(rng):
    """Noise, broken JSON, wrong types, wrong values, things that a careless program might run."""
    choice = rng.randrange(6)
    if choice == 0:
        return rng.randbytes(rng.randrange(200))
    if choice == 1:
        return "".join(chr(rng.randrange(1, 0xD7FF)) for _ in range(rng.randrange(100)))
    message = {"type": rng.choice(KINDS)} | {rng.choice(NAMES): rng.choice(VALUES) for _ in range(rng.randrange(5))}
    text = json.dumps(message)
    if choice == 2:
        return text[: rng.randrange(len(text))]
    if choice == 3:
        return text.encode() + rng.randbytes(3)
    if choice == 4:
        return rng.choice("[{") * rng.randrange(1, 4000)
    return text


def test_ten_thousand_hostile_messages_and_the_next_good_one_is_answered(server):
    rng = random.Random(0)
    with visit(server) as socket:
        post(socket, type="setup", players=[{"agent": "small"}], picture_size=64, paused=True)
        receive(socket, "session")
        for number in range(10_000):
            socket.send(hostile(rng))
            if number % 100 == 99:  # read the answers, as a browser would
                post(socket, type="ping", id=number)
                assert receive(socket, "pong")["id"] == number
        post(socket, type="setup", players=[{"agent": "small"}], task=[0, 1, 0, 0], picture_size=64, paused=True)
        while receive(socket, "session")["task"] != [0, 1, 0, 0]:
            pass
        post(socket, type="step")
        while receive_frame(socket)["players"][0]["step"] != 1:
            pass


def test_a_flood_with_the_usual_limits_does_not_concern_others(serve):
    server, rng = serve(), random.Random(1)
    with visit(server) as attacker, visit(server) as bystander:
        for _ in range(3_000):
            attacker.send(hostile(rng))
        post(bystander, type="ping", id=1)
        assert receive(bystander, "pong")["id"] == 1


# --- connections that hold a place for nothing ---

QUICK = Limits(
    sessions=2, connections=20, waiting_seconds=5, request_seconds=0.5, unread_seconds=0.5, pings_per_second=5
)


def dial(server, sent=b""):
    connection = socket_module.create_connection(("127.0.0.1", server.port), timeout=20)
    connection.sendall(sent)
    return connection


def ended(connection):
    """Whether the server ends a connection; anything it sends before is read."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def shake_hands(connection, server):
    """Open a socket without a client that reads on its own."""
    lines = (
        *("GET /socket HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"Origin: {server.url.rstrip('/')}"),
        *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    connection.sendall("\r\n".join((*lines, "", "")).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(1)
    assert b" 101 " in answer


def masked(opcode, payload=b""):
    """A frame of a client; the mask is zero."""
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return bytes([opcode]) + size + bytes(4) + payload


def deaf_visitor(server):
    """A socket that sends, with a small buffer, but never reads."""
    connection = socket_module.socket()
    connection.setsockopt(socket_module.SOL_SOCKET, socket_module.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    setup = json.dumps({"type": "setup", "players": [{"agent": "small"}], "picture_size": 512}).encode()
    shake_hands(connection, server)
    connection.sendall(masked(0x81, setup))
    return connection


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: ", b"GET /nothing HTTP/1.1\r\nContent-Length: 9\r\n\r\n1"]
)
def test_a_request_that_is_not_completed_is_dropped(serve, sent):
    with dial(serve(limits=QUICK), sent) as connection:
        assert ended(connection)


def test_visitors_are_served_while_others_hold_every_connection(serve):
    server = serve(limits=replace(QUICK, request_seconds=60))
    held = [dial(server, b"GET / HT") for _ in range(60)]  # three times the limit
    assert get(server)[0] == 200
    with visit(server) as socket:
        receive(socket, "hello")
    for connection in held:
        connection.close()


def test_a_visitor_who_does_not_read_is_dropped_and_the_place_is_free(serve):
    server = serve(limits=QUICK)
    deaf = [deaf_visitor(server) for _ in range(2)]
    with visit(server) as socket:  # waits in line
        receive(socket, "hello", timeout=20)
    for connection in deaf:
        connection.close()


def test_a_flood_of_pings_or_of_fragments_ends_the_connection(serve):
    server = serve(limits=replace(QUICK, unread_seconds=60))
    for flood in (masked(0x89, b"ping") * 200, masked(0x01) + masked(0x00) * 200):
        with dial(server) as connection:
            shake_hands(connection, server)
            connection.sendall(flood)
            assert ended(connection)
    with visit(server) as socket:
        receive(socket, "hello")


def test_the_package_holds_the_page():
    assert {path.suffix for path in PAGES} == {".html", ".css", ".js", ".svg"}
    assert all(Path(path).stat().st_size < 30_000 for path in PAGES)
