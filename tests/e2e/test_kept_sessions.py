"""A limit of sessions that a user keeps, and client ids that are bound to users: by paho and by mosquitto's tools, over a restart and a crash."""

import signal
import subprocess
import threading

import paho.mqtt.client as paho
import pytest
from broker import Courser
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from test_access import init, start, stop

pytestmark = pytest.mark.courser

QUOTA_EXCEEDED, UNAVAILABLE = 0x97, 3
NOT_VALID, REJECTED = 0x85, 2


class Site:
    """A server with the user `dev`, who may keep three sessions, and `other`, who may keep as many as there may be."""

    def __init__(self, folder, *settings):
        self.folder, self.settings = folder, settings
        init(folder)
        if settings:
            with (folder / "courser.toml").open("a") as file:
                file.write("\n".join(settings) + "\n")
        self.server, self.port, _ = start(folder)
        (folder / "secret").write_text("of a device\n")
        self.courser("role", "add", "device", "--quota", "sessions=3")
        self.courser("acl", "grant", "device", "all", "#")
        self.courser("role", "add", "free")
        self.courser("acl", "grant", "free", "all", "#")
        self.courser("user", "add", "dev", "--role", "device", "--password-file", "secret")
        self.courser("user", "add", "other", "--role", "free", "--password-file", "secret")

    def courser(self, *words):
        command = [Courser.binary(), *words, "--server", "data"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def again(self, how):
        if how == "crash":
            self.server.send_signal(signal.SIGKILL)
            self.server.wait(30)
        else:
            stop(self.server)
        self.server, self.port, _ = start(self.folder)

    def comes(self, client_id, version=paho.MQTTv5, user="dev", kept=True, begins_anew=False):
        """The number in CONNACK of a client that comes and leaves; and whether its session was there."""
        heard, reasons = threading.Event(), []
        self.assigned = None
        more = {} if version == paho.MQTTv5 else {"clean_session": not kept}
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version, **more)
        client.username_pw_set(user, "of a device")

        def on_connect(_client, _data, flags, reason, properties):
            reasons.append((reason.value, flags.session_present))
            self.assigned = getattr(properties, "AssignedClientIdentifier", None)
            heard.set()

        client.on_connect = on_connect
        if version == paho.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 3600 if kept else 0
            client.connect("127.0.0.1", self.port, clean_start=begins_anew, properties=properties)
        else:
            client.connect("127.0.0.1", self.port)
        client.loop_start()
        assert heard.wait(20), "no CONNACK"
        client.disconnect()
        client.loop_stop()
        return reasons[0]


def code(version, five, three):
    """What paho makes of the three of 3.1.1: the names of 5.0."""
    return five if version == paho.MQTTv5 else {UNAVAILABLE: 0x88, REJECTED: 0x85}[three]


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
@pytest.mark.parametrize("how", ["stop", "crash"])
def test_a_user_keeps_as_many_sessions_as_it_may(tmp_path, version, how):
    site = Site(tmp_path)
    refused = code(version, QUOTA_EXCEEDED, UNAVAILABLE)
    for number in range(3):
        assert site.comes(f"d{number}", version) == (0, False)
    for _ in range(2):
        assert site.comes("d3", version) == (refused, False)
        assert site.comes("d3", version, kept=False) == (0, False)
        assert site.comes("x3", version, user="other")[0] == 0
        for number in range(3):
            assert site.comes(f"d{number}", version) == (0, True), "its own"
        assert site.comes("d1", paho.MQTTv5, begins_anew=True) == (0, False)
        shown = site.courser("client", "show", "d3")
        if "its user keeps as many sessions" not in shown:
            assert site.comes("d3", version) == (refused, False)
            shown = site.courser("client", "show", "d3")
        assert "the server refused the client: its user keeps as many sessions as it may keep" in shown, shown
        site.again(how)
    site.courser("session", "delete", "d0", "--yes")
    assert site.comes("d3", version) == (0, False)
    assert site.comes("d0", version) == (refused, False)
    site.courser("user", "set", "dev", "--quota", "sessions=4")
    assert site.comes("d0", version) == (0, False)
    text = stop(site.server)
    assert any("event=login_refused" in line and "client_id=d0 " in line and "user=dev " in line and "sessions" in line for line in text.splitlines()), text


@pytest.mark.parametrize("version", ["311", "5"])
def test_mosquitto_sub_hears_that_there_are_too_many(tmp_path, version):
    site = Site(tmp_path)
    sub = ["mosquitto_sub", "-p", str(site.port), "-V", version, "-u", "dev", "-P", "of a device", "-t", "t", "-q", "1", "-E", "-c"]
    sub += ["-x", "3600"] if version == "5" else []
    try:
        ends = [subprocess.run([*sub, "-i", f"d{number}"], capture_output=True, text=True, timeout=60, check=False) for number in range(4)]
    except FileNotFoundError:
        pytest.skip("mosquitto_sub is not installed")
    assert [end.returncode for end in ends[:3]] == [0, 0, 0], ends
    assert ends[3].returncode == (QUOTA_EXCEEDED if version == "5" else UNAVAILABLE), ends[3]
    stop(site.server)


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
def test_client_ids_are_those_of_their_users(tmp_path, version):
    site = Site(tmp_path)
    stop(site.server)
    text = (tmp_path / "courser.toml").read_text()
    assert text.count("\n[mqtt]\n") == 1, text
    (tmp_path / "courser.toml").write_text(text.replace("\n[mqtt]\n", '\n[mqtt]\nclient_ids = ["%u", "%u-*"]\n'))
    site.server, site.port, _ = start(tmp_path)
    refused = code(version, NOT_VALID, REJECTED)
    assert site.comes("dev-1", version) == (0, False)
    assert site.comes("dev", version, kept=False) == (0, False)
    for foreign in ("other", "other-1", "dev1", "-dev"):
        assert site.comes(foreign, version) == (refused, False), foreign
    assert site.comes("", paho.MQTTv5, kept=False)[0] == 0
    assert site.comes("other-1", version, user="other") == (0, False)
    assert "the listener gives its user no such client id: client_ids" in site.courser("client", "show", "dev1")
    stop(site.server)


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_who_was_given_a_client_id_comes_back_with_it_and_nobody_makes_one_up(tmp_path, how):
    """Also where its session has ended, and after a start; ids of that look that a client makes up are refused."""
    site = Site(tmp_path)
    stop(site.server)
    text = (tmp_path / "courser.toml").read_text()
    (tmp_path / "courser.toml").write_text(text.replace("\n[mqtt]\n", '\n[mqtt]\nclient_ids = ["%u", "%u-*"]\n'))
    site.server, site.port, _ = start(tmp_path)
    assert site.comes("") == (0, False)
    kept = site.assigned
    assert site.comes("", kept=False) == (0, False)
    ended = site.assigned
    assert kept and ended and kept != ended

    def look():
        assert site.comes(kept) == (0, True)
        assert site.comes(ended, kept=False) == (0, False)
        changed = ended[:-1] + ("0" if ended[-1] != "0" else "1")
        for made_up in ("auto-" + "0" * 32, "auto-" + "0123456789abcdef" * 2, changed):
            for version in (paho.MQTTv5, paho.MQTTv311):
                refused = code(version, NOT_VALID, REJECTED)
                assert site.comes(made_up, version, kept=False) == (refused, False), made_up

    look()
    site.again(how)
    look()
    stop(site.server)
