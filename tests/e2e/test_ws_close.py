"""A WebSocket client that says good-bye is answered before its connection closes (RFC 6455 section 5.5.1)."""

import contextlib
import socket

import pytest
import wire
from broker import Courser
from doors import listener, places, running
from web import BINARY, CLOSE, UPGRADE, frame
from wire import CONNACK, V5

pytestmark = pytest.mark.courser

UPGRADED = b"\r\n\r\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with running(Courser, tmp_path_factory.mktemp("web"), listeners=listener("ws", "ws")) as broker:
        yield places(broker)["ws"]


def read_until(sock, end):
    """What comes up to and with `end`."""
    seen = b""
    while end not in seen:
        piece = sock.recv(4096)
        assert piece, f"closed behind {seen}"
        seen += piece
    return seen


@pytest.mark.parametrize("code", [b"\x03\xe9", b""], ids=["with a code", "without a code"])
@pytest.mark.parametrize("when", ["with the upgrade", "before CONNECT", "with CONNECT", "after CONNACK"])
def test_a_close_is_answered(place, when, code):
    request, good_bye = UPGRADE + b"\r\n", frame(CLOSE, code)
    connect = frame(BINARY, wire.connect(V5, "closing"))
    with socket.create_connection(place, timeout=10) as sock:
        if when == "with the upgrade":
            sock.sendall(request + good_bye)
        else:
            sock.sendall(request)
            assert b" 101 " in read_until(sock, UPGRADED)
        if when == "before CONNECT":
            sock.sendall(good_bye)
        elif when == "with CONNECT":
            sock.sendall(connect + good_bye)
        elif when == "after CONNACK":
            sock.sendall(connect)
            read_until(sock, bytes([CONNACK << 4]))
            sock.sendall(good_bye)
        seen = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := sock.recv(4096):
                seen += piece
    assert seen.endswith(bytes([0x80 | CLOSE, len(code)]) + code), seen
