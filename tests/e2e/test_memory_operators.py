"""Operators that do not read what they have asked for fill no memory, and shut nobody out."""

import http.client
import json
import re
import socket
import time

import pytest
from test_memory import KEPT, MIB, Client, Healthy, Server

pytestmark = pytest.mark.courser

MAX = 64 * MIB
# Sessions whose listing is some 2 MiB, and readers that would have all of memory.max with it.
SESSIONS, NAME_BYTES, READERS = 1_500, 1_000, 50
# A page is a part of 256 of memory.max, and ends behind the row that fills it.
PAGE_BYTES = MAX // 256 + 4_096
# After so long a reader that takes nothing is not waited for.
STALL_SECONDS = 10


class Api:
    """HTTP with the token."""

    def __init__(self, server, folder):
        self.address = re.search(r"API, metrics and health on http://([0-9.:]+)", server.log.read_text())[1]
        token = (folder / "data" / "admin.token").read_text().strip()
        self.headers = {"Authorization": f"Bearer {token}"}

    def get(self, path):
        """Status, headers and body; in time, also while others do not read."""
        connection = http.client.HTTPConnection(self.address, timeout=8)
        connection.request("GET", path, headers=self.headers)
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def sessions(self):
        """All of them, and how many bytes each page has."""
        rows, pages, cursor = [], [], ""
        while True:
            status, _, body = self.get(f"/api/v1/sessions?limit=10000{cursor}")
            assert status == 200, body
            page = json.loads(body)
            pages.append(len(body))
            rows += [row["client_id"] for row in page["items"]]
            if not page.get("next"):
                return rows, pages
            cursor = f"&cursor={page['next']}"

    def reader(self):
        """Asks for as much as there is, and does not read it."""
        host, port = self.address.split(":")
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.settimeout(30)
        reader.connect((host, int(port)))
        head = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        reader.sendall(f"GET /api/v1/sessions?limit=10000 HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
        return reader


def whole(reader):
    """Reads what there is: the status, the headers, and whether all of the body came."""
    data = b""
    try:
        while True:
            part = reader.recv(65536)
            if not part:
                break
            data += part
            head, _, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if length and len(body) == int(length[1]):
                break
    except OSError:
        pass
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return head, bool(length) and len(body) == int(length[1])


@pytest.mark.timeout(120)
def test_answers_that_nobody_reads_fill_no_memory(tmp_path):
    """With 64 MiB: a page ends by its bytes, few readers have one at a time, the others hear that they are to come again, and who takes nothing is ended.
    Meanwhile clients, health and metrics are served."""
    server = Server(tmp_path, MAX, http='["127.0.0.1:0"]')
    try:
        names = [f"s{number}".ljust(NAME_BYTES, "x") for number in range(SESSIONS)]
        for name in names:
            client = Client(server.port, name, properties=KEPT)
            assert client.reason == 0
            client.close()
        api = Api(server, tmp_path)
        rows, pages = api.sessions()
        assert sorted(rows) == sorted(names)
        with Healthy(server.port) as healthy:
            began = time.monotonic()
            readers = [api.reader() for _ in range(READERS)]
            while time.monotonic() < began + STALL_SECONDS + 5:
                assert api.get("/healthz")[0] == 200
                status, _, text = api.get("/metrics")
                assert status == 200
                held = int(re.search(rb'^courser_memory_held_bytes\{component="control"\} (\d+)', text, re.MULTILINE)[1])
                assert held <= MAX / 8, f"{held >> 10} KiB"
                healthy.is_served(20)
                time.sleep(0.5)
            refused = ended = 0
            for reader in readers:
                head, came = whole(reader)
                reader.close()
                if head.startswith(b"HTTP/1.1 503"):
                    assert re.search(rb"retry-after: \d+", head), head
                    refused += 1
                else:
                    ended += not came
            print(f"{len(pages)} pages of {max(pages)} B at most; {refused} refused, {ended} ended; peak {server.peak / MIB:.0f} MiB")
            assert max(pages) <= PAGE_BYTES
            assert refused > 0
            # Who behaves has one of its own.
            assert set(api.sessions()[0]) == {*names, "healthy"}, "there is room again"
        assert healthy.refused == 0
    finally:
        code, log = server.stop()
    assert code == 0, log
    assert "memory_full" not in log, log
