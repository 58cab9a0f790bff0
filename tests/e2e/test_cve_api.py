"""Inputs that have stopped the HTTP API of other brokers, by the names of their advisories."""

import contextlib
import os
import socket

import pytest

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no token"),
]

MIB = 1 << 20
REFUSED = (400, 413, None)


def status_of(server, head, body):
    """The status of the answer to a request; none where the connection was cut off first, since nobody reads the rest of a body."""
    host, port = server.http.removeprefix("http://").split(":")
    token = (server.folder / "data" / "admin.token").read_text().strip()
    lines = [*head, "Host: x", f"Authorization: Bearer {token}", "", ""]
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall("\r\n".join(lines).encode())
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for piece in body:
                connection.sendall(piece)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while b"\r\n" not in answer:
                more = connection.recv(4096)
                if not more:
                    break
                answer += more
    return int(answer.split()[1]) if answer else None


def test_cve_2023_46118_large_bodies(brokers):
    """A body of 64 MiB, announced or in chunks without an end, is refused at its limit: no memory is filled, and others are answered."""
    server = brokers.own(sys_interval=0)
    route = "POST /api/v1/users HTTP/1.1"
    assert status_of(server, [route, "Content-Length: 2"], [b"{}"]) == 400
    before = server.rss_bytes()
    piece = b"x" * MIB
    assert status_of(server, [route, f"Content-Length: {64 * MIB}"], [piece] * 64) in REFUSED
    chunk = b"%x\r\n%s\r\n" % (MIB, piece)
    assert status_of(server, [route, "Transfer-Encoding: chunked"], [chunk] * 64) in REFUSED
    assert server.rss_bytes() - before < 8 * MIB
    assert status_of(server, ["GET /api/v1/node HTTP/1.1"], []) == 200


FORMATS = ["~1000000000p", "%1000000000d%n%s%s%s", "{:>1000000000}", "${jndi:ldap://127.0.0.1/x}", "~s" * 4000]


@pytest.mark.parametrize("name", ["X-Reason", "User-Agent", "Referer", "Accept", "Authorization"])
def test_cve_2019_11287_a_header_that_is_a_format(brokers, name):
    """Formats that would fill the memory in a header: it is as good as any other text, and the answer is what it is without."""
    server = brokers.common(sys_interval=0)
    before = server.rss_bytes()
    for text in FORMATS:
        expected = 401 if name == "Authorization" else 200
        # The header of the token comes last; of two the first one counts.
        assert status_of(server, ["GET /api/v1/node HTTP/1.1", f"{name}: {text}"], []) == expected, text
    assert server.rss_bytes() - before < 8 * MIB
