"""`/metrics` as a scraper reads it: by the strict reader of OpenMetrics that Prometheus' own client has, before and after there was traffic,
and by Prometheus itself.

`promtool check metrics` reads the older format only, and so no more than a copy of it (`test_operators.py`).
"""

import contextlib
import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from broker import free_port, until
from doors import Authority, listener, server_names
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from raw import RawClient
from scenario import Raw
from wire import PUBACK, V5, publish

pytestmark = pytest.mark.courser

# What the reader's types say of the names of samples, by the standard's text.
SUFFIXES = {
    "counter": {"_total", "_created"},
    "gauge": {""},
    "histogram": {"_bucket", "_count", "_sum", "_created"},
    "info": {"_info"},
}
# Words at the end of a name that are a unit, which the family says then.
UNITS = ("seconds", "bytes", "ratio")
# A sample for each code that has occurred.
EMPTY_AT_FIRST = {"courser_mqtt_closes_by_reason"}


def scrape(server, path="/metrics", **headers):
    """Families by name. The reader refuses what the standard forbids: order, names, units, escapes, buckets, the end mark."""
    headers["Accept"] = "application/openmetrics-text; version=1.0.0"
    request = urllib.request.Request(server.http + path, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        text = answer.read().decode()
    assert text.endswith("\n# EOF\n"), text[-80:]
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), "a family is in one piece"
    return {family.name: family for family in families}


def check(family):
    assert family.name.startswith("courser_"), family.name
    assert family.documentation, family.name
    assert not family.unit or family.name.endswith(f"_{family.unit}"), family.name
    assert family.unit == next((unit for unit in UNITS if family.name.endswith(f"_{unit}")), ""), family.name
    for sample in family.samples:
        assert sample.name.removeprefix(family.name) in SUFFIXES[family.type], sample
        if family.type in ("counter", "histogram"):
            assert sample.value >= 0, sample


def counted(families):
    """Everything that only grows, by name and labels."""
    samples = [sample for family in families.values() if family.type in ("counter", "histogram") for sample in family.samples]
    return {(sample.name, *sorted(sample.labels.items())): sample.value for sample in samples}


def send(client: RawClient, count: int) -> None:
    for number in range(1, count + 1):
        client.send(publish(V5, "m/x", b"payload", qos=1, packet_id=number))
        assert client.expect(PUBACK, packet_id=number).reason in (0, 0x10)


@pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder the log has no times to tell")
def test_a_strict_reader_takes_it(brokers, tmp_path):
    files = Authority(tmp_path / "certificates").issue("server", "localhost", server_names())
    server = brokers.own(sys_interval=0, listeners=listener("tls", "mqtts", files=files))
    before = scrape(server)
    assert {name for name, family in before.items() if not family.samples} == EMPTY_AT_FIRST
    for family in before.values():
        check(family)
    kinds = {family.type for family in before.values()}
    assert kinds == set(SUFFIXES), "every kind is there, so every kind was read"
    client = Raw(server, V5).connect("somebody")
    send(client, 100)
    client.send(b"\0\0")
    client.expect_closed(0x81)
    until(lambda: server.metric('courser_mqtt_closes_by_reason_total{reason_code="0x81"}') == 1, "it is counted")
    after = scrape(server)
    assert all(family.samples for family in after.values()), "each has something to say"
    assert after.keys() == before.keys(), "families do not come and go"
    for family in after.values():
        check(family)
    earlier, later = counted(before), counted(after)
    assert all(later[sample] >= earlier[sample] for sample in earlier), "what only grows has shrunk"
    acknowledged = later[("courser_publish_to_ack_seconds_count",)] - earlier[("courser_publish_to_ack_seconds_count",)]
    assert acknowledged == 100
    received = ("courser_messages_received_total", ("protocol", "mqtt"), ("qos", "1"))
    assert later[received] - earlier[received] == 100
    assert not any("somebody" in str(sample) for sample in later), "no client in a label"


@pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no token")
def test_a_strict_reader_takes_single_objects(brokers):
    server = brokers.own(sys_interval=0)
    client = Raw(server, V5).connect('some"bo\\dy')
    token = (server.folder / "data" / "admin.token").read_text().strip()
    for kind in ("clients", "sessions", "listeners"):
        found = scrape(server, f"/metrics/detailed?family={kind}", Authorization=f"Bearer {token}")
        assert found, kind
        for family in found.values():
            check(family)
        if kind == "clients":
            labels = [sample.labels for family in found.values() for sample in family.samples]
            ids = {named["client_id"] for named in labels if "client_id" in named}
            assert ids and all(name.startswith('some"bo\\dy') for name in ids), "what is escaped comes back"
    client.disconnect()


# Where samples are, and who may have them.
JOBS = {
    "metrics": "metrics_path: /metrics",
    **{family: f"metrics_path: /metrics/detailed\n  params: {{family: [{family}]}}\n  authorization: {{credentials_file: {{token}}}}"
       for family in ("clients", "sessions", "listeners")},
}  # fmt: skip


class Prometheus:
    """One that scrapes a broker again and again, all that it serves."""

    def __init__(self, program, folder, server):
        folder.mkdir()
        self.place = f"127.0.0.1:{free_port()}"
        jobs = "".join(
            f"- job_name: {name}\n  {how.replace('{token}', str(server.folder / 'data' / 'admin.token'))}\n"
            f"  static_configs: [{{targets: ['{server.http.removeprefix('http://')}']}}]\n"
            for name, how in JOBS.items()
        )
        (folder / "prometheus.yml").write_text(f"global: {{scrape_interval: 3s, scrape_timeout: 3s}}\nscrape_configs:\n{jobs}")
        self.log = folder / "log"
        with self.log.open("w") as output:
            command = [program, "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", f"--web.listen-address={self.place}"]
            self.process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)

    def ask(self, path, **query):
        url = f"http://{self.place}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310
            return json.load(answer)["data"]

    def targets(self):
        """What became of the last scrape of each job."""
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError):
            return {found["scrapePool"]: (found["health"], found["lastError"]) for found in self.ask("targets")["activeTargets"]}
        return {}

    def has_scraped(self):
        found = self.targets()
        return len(found) == len(JOBS) and all(health != "unknown" for health, _ in found.values())

    def end(self):
        self.process.terminate()
        self.process.wait(30)


@pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no token")
def test_prometheus_takes_it(brokers, tmp_path):
    """It scrapes what the broker says, as it is: each sample of the text, and of each family the type, the help and the unit."""
    tool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    program = Path(tool).with_name("prometheus") if tool else None
    if not program or not program.exists():
        pytest.skip("there is no prometheus beside promtool, or no promtool: name one in PROMTOOL")
    server = brokers.own(sys_interval=0)
    client = Raw(server, V5).connect("somebody")
    send(client, 10)
    client.send(b"\0\0")
    client.expect_closed(0x81)
    until(lambda: server.metric('courser_mqtt_closes_by_reason_total{reason_code="0x81"}') == 1, "it is counted")
    there = Raw(server, V5).connect("there")
    prometheus = Prometheus(str(program), tmp_path / "prometheus", server)
    try:
        until(prometheus.has_scraped, "all are scraped")
        assert prometheus.targets() == dict.fromkeys(JOBS, ("up", ""))
        families = scrape(server)
        series = prometheus.ask("query", query='count by (__name__) ({job="metrics", __name__=~"courser_.+"})')["result"]
        found = {row["metric"]["__name__"]: int(row["value"][1]) for row in series}
        assert found == Counter(sample.name for family in families.values() for sample in family.samples)
        told = {row["metric"]: (row["type"], row["help"], row["unit"]) for row in prometheus.ask("targets/metadata", match_target='{job="metrics"}')}
        assert told == {name: (family.type, family.documentation, family.unit) for name, family in families.items()}
        for family in ("clients", "sessions", "listeners"):
            assert prometheus.ask("query", query=f'count({{job="{family}", __name__=~"courser_.+"}})')["result"], family
    finally:
        prometheus.end()
    there.disconnect()
