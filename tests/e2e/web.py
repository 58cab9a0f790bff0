"""The client's side of WebSocket, as far as tests send it byte by byte."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct

UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n"
)
BINARY, CLOSE, PING = 2, 8, 9


def frame(opcode, data, first=0x80, announced=None, masked=True):
    """A frame of a client, whose mask is zeros."""
    length = len(data) if announced is None else announced
    bit = 0x80 if masked else 0
    if length < 126:
        head = bytes([bit | length])
    elif length < 1 << 16:
        head = bytes([bit | 126]) + struct.pack(">H", length)
    else:
        head = bytes([bit | 127]) + struct.pack(">Q", length)
    return bytes([first | opcode]) + head + (bytes(4) if masked else b"") + data


def upgrade(sock, more=b""):
    """Makes the upgrade on a connection. The head of the answer; none when the connection was closed instead."""
    sock.sendall(UPGRADE + more + b"\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        piece = sock.recv(4096)
        if not piece:
            return None
        head += piece
    return head


def upgraded(place, more=b"", context: ssl.SSLContext | None = None, timeout=10):
    """A new connection, by TLS where there is a context, and the head of the answer to its upgrade."""
    sock = socket.create_connection(place, timeout=timeout)
    with contextlib.ExitStack() as unless_it_is_open:
        unless_it_is_open.callback(sock.close)
        if context:
            sock = context.wrap_socket(sock, server_hostname="localhost")
        head = upgrade(sock, more)
        if head is None:
            raise ConnectionError("closed instead of upgraded")
        unless_it_is_open.pop_all()
    return sock, head
