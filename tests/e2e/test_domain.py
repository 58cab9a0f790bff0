"""Limits of the domain and of users: what waits for a session, how fast a client publishes, and who goes before whom."""

import json
import os
import re
import subprocess
import urllib.error
import urllib.request

import pytest
import wire
from broker import Courser, until
from doors import WithAccounts, running
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from scenario import Raw
from wire import PUBACK, PUBLISH, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="domains are kept in the data folder"),
]


def run(broker, *arguments, read=None):
    command = [str(Courser.binary()), *arguments, "--server", str(broker.folder / "data")]
    done = subprocess.run(command, cwd=broker.folder, input=read, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def publish(raw, count, **options):
    publisher = raw.connect("publisher", **options)
    for number in range(1, count + 1):
        publisher.send(wire.publish(V5, "limit/x", str(number).encode(), qos=1, packet_id=number))
        assert publisher.expect(PUBACK, packet_id=number).reason in (0, 0x10)
    publisher.close()


def waiting(broker, client_id):
    rows = json.loads(run(broker, "session", "list", "--filter", f"client_id={client_id}", "-o", "json"))
    return [row["queued_messages"] for row in rows["items"]]


def away(raw, client_id, **options):
    client, _ = raw.resume(client_id, **options)
    client.subscribe("limit/#", qos=1)
    client.close()


def test_what_waits_is_limited_for_who_does_not_log_in(tmp_path):
    """It holds for a session that is away when the limit is set, and after a restart that nobody has connected after."""
    with running(Courser, tmp_path / "broker") as broker:
        raw = Raw(broker, V5)
        away(raw, "before")
        run(broker, "domain", "set", "default", "--quota", "queued_messages=3", "--yes")
        away(raw, "after")
        publish(raw, 5)
        assert (waiting(broker, raw.client_id("before")), waiting(broker, raw.client_id("after"))) == ([3], [3])
        run(broker, "domain", "set", "default", "--quota", "queued_messages=4", "--yes")
    with running(Courser, tmp_path / "broker") as broker:
        again = Raw(broker, V5)
        again.mark = raw.mark
        publish(again, 5)
        assert waiting(broker, raw.client_id("before")) == [4]
        client, present = again.resume("before")
        assert present
        assert [client.expect(PUBLISH).payload for _ in range(4)] == [b"1", b"2", b"3", b"1"]


def retained(broker):
    return len(json.loads(run(broker, "retained", "list", "kept/#", "--limit", "1000", "-o", "json"))["items"])


def test_what_all_have_retained_is_limited_by_the_domain(tmp_path):
    """The limit is shared out among the partitions; it holds at once and after a restart, and what is there already stays."""
    with running(Courser, tmp_path / "broker") as broker:
        client = Raw(broker, V5).connect("publisher")

        def store(names):
            """Stores a message for each topic; those that were refused."""
            refused = 0
            for number, name in enumerate(names, 1):
                client.send(wire.publish(V5, f"kept/{name}", b"x", qos=1, retain=True, packet_id=number))
                refused += client.expect(PUBACK, packet_id=number).reason == 0x97
            return refused

        assert store(f"before/{number}" for number in range(200)) == 0
        run(broker, "domain", "set", "default", "--quota", "retained_messages=64")
        assert store(f"behind/{number}" for number in range(200)) == 200
        assert retained(broker) == 200, "what is there stays"
        assert store(f"before/{number}" for number in range(200)) == 0, "one that replaces another is no larger"
        client.close()
    with running(Courser, tmp_path / "broker") as broker:
        client = Raw(broker, V5).connect("publisher")
        assert store(f"behind/{number}" for number in range(200)) == 200
        run(broker, "domain", "set", "default", "--quota", "retained_messages=none", "--quota", "retained_bytes=4000")
        assert store(f"behind/{number}" for number in range(200)) == 200
        run(broker, "domain", "set", "default", "--quota", "retained_bytes=none")
        assert store(f"behind/{number}" for number in range(200)) == 0
        assert retained(broker) == 400
        client.close()


def test_the_shares_of_what_is_retained_add_up_to_the_limit(tmp_path):
    """Of 200 topics, which every partition has some of, as many are retained as the limit says, also where that is less than there are partitions."""
    with running(Courser, tmp_path / "broker") as broker:
        client = Raw(broker, V5).connect("publisher")
        for limit in (1, 5, 10, 30):
            run(broker, "domain", "set", "default", "--quota", f"retained_messages={limit}")
            for number in range(200):
                client.send(wire.publish(V5, f"kept/{number}", b"x", qos=1, retain=True, packet_id=1))
                assert client.expect(PUBACK).reason in (0, 0x10, 0x97)
            assert retained(broker) == limit
        client.close()


def test_less_that_may_wait_is_asked_about(tmp_path):
    """Nothing that waits goes without a word: not by a command that nobody can be asked for, nor by one that only says what it would do."""
    with running(Courser, tmp_path / "broker") as broker:
        raw = Raw(broker, V5)
        away(raw, "absent")
        publish(raw, 50)
        lower = [str(Courser.binary()), "domain", "set", "default", "--quota", "queued_messages=1", "--server", str(broker.folder / "data")]
        done = subprocess.run(lower, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and "drop what waits beyond that" in done.stderr, done
        assert "would drop what waits" in run(broker, *lower[1:6], "--dry-run")
        assert waiting(broker, raw.client_id("absent")) == [50]
        run(broker, *lower[1:6], "--yes")
        # What is beyond it goes some at a time.
        until(lambda: waiting(broker, raw.client_id("absent")) == [1], "one message is left")


def test_the_domain_slows_down_who_does_not_log_in(tmp_path):
    with running(Courser, tmp_path / "broker") as broker:
        run(broker, "domain", "set", "default", "--quota", "messages_per_second=20")
        publish(Raw(broker, V5), 30)
        text = urllib.request.urlopen(f"{broker.http}/metrics", timeout=20).read().decode()  # noqa: S310
        assert int(re.search(r"courser_publishers_over_quota_total (\d+)", text).group(1)) >= 1, text


def test_a_user_goes_before_its_role_and_that_before_the_domain(tmp_path):
    broker = WithAccounts(tmp_path / "broker", {})
    broker.folder.mkdir(parents=True, exist_ok=True)
    broker.start()
    try:
        run(broker, "domain", "set", "default", "--quota", "queued_messages=1", "--yes")
        run(broker, "role", "add", "device", "--quota", "queued_messages=2")
        run(broker, "role", "add", "plain")
        raw = Raw(broker, V5)
        for user, role in [("of-domain", "plain"), ("of-role", "device"), ("own", "device")]:
            run(broker, "acl", "grant", role, "all", "limit/#")
            run(broker, "user", "add", user, "--role", role, "--password-file", "-", read="a password\n")
        run(broker, "user", "set", "own", "--quota", "queued_messages=3", "--yes")
        for user in ("of-domain", "of-role", "own"):
            away(raw, user, username=user, password=b"a password")
        publish(raw, 5, username="own", password=b"a password")
        assert [waiting(broker, raw.client_id(user)) for user in ("of-domain", "of-role", "own")] == [[1], [2], [3]]
    finally:
        assert broker.stop() == 0, broker.tail()


def scrape(broker, question, token=True):
    request = urllib.request.Request(f"{broker.http}/metrics/detailed?{question}")  # noqa: S310
    if token:
        request.add_header("Authorization", f"Bearer {(broker.folder / 'data/admin.token').read_text().strip()}")
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        text = answer.read().decode()
        return {it.name: it for it in text_string_to_metric_families(text)}, answer.headers


def test_figures_of_single_clients_are_for_operators(tmp_path):
    """A strict reader takes them, whatever clients are called; pages follow each other; and nobody sees them without the token."""
    names = ["plain", 'a"} 1 # EOF', "back\\slash", "ünï"]
    with running(Courser, tmp_path / "broker") as broker:
        raw = Raw(broker, V5)
        clients = [raw.resume(name)[0] for name in names]
        clients[0].subscribe("limit/#", qos=1)
        with pytest.raises(urllib.error.HTTPError) as refused:
            scrape(broker, "family=clients", token=False)
        assert refused.value.code == 401
        with pytest.raises(urllib.error.HTTPError) as refused:
            scrape(broker, "family=queues")
        assert refused.value.code == 400
        families, headers = scrape(broker, "family=clients")
        seen = [sample.labels["client_id"] for sample in families["courser_client_output_bytes"].samples]
        assert sorted(seen) == sorted(raw.client_id(name) for name in names)
        assert families["courser_detailed_whole"].samples[0].value == 1 and "Link" not in headers
        pages, question = [], "family=sessions&limit=3&sort=client_id"
        while True:
            families, headers = scrape(broker, question)
            pages.append([sample.labels["client_id"] for sample in families["courser_session_connected"].samples])
            if "Link" not in headers:
                break
            assert families["courser_detailed_whole"].samples[0].value == 0
            question = re.fullmatch(r'<\?(family=sessions&limit=3&sort=client_id&cursor=[0-9a-f]+)>; rel="next"', headers["Link"]).group(1)
        assert pages == [sorted(seen)[:3], sorted(seen)[3:]]
        families, _ = scrape(broker, f"family=sessions&filter=client_id={raw.client_id('plain')}")
        subscriptions = families["courser_session_subscriptions"].samples
        assert [(sample.labels["client_id"], sample.value) for sample in subscriptions] == [(raw.client_id("plain"), 1)]
        families, _ = scrape(broker, "family=listeners")
        assert [sample.value for sample in families["courser_listener_connections"].samples] == [4]
