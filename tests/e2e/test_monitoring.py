"""The dashboard and the alert rules: they ask for what a server says, rules fire on what they are for, and each names a part of the page."""

import json
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
from doors import Authority, listener, server_names
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from scenario import Raw
from wire import V5

pytestmark = pytest.mark.courser

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana-mqtt.json").read_text())
RULES = (FOLDER / "alerts.yaml").read_text()
ALERTS = re.findall(r"^ +- alert: (\w+)$", RULES, re.MULTILINE)

# What promtool is told that a server says, a value a minute, and for how many minutes it has to be so.
FIRES = {
    "CourserDown": ('up{job="courser", instance="a"}', "0x20", 2),
    "CourserNotReady": ('courser_ready{instance="a"}', "0x20", 3),
    "CourserDiskFailed": ('courser_disk_failed{instance="a"}', "1x20", 1),
    "CourserPartitionSetAside": ('courser_partitions_set_aside{instance="a"}', "1x20", 1),
    "CourserStreamStopped": ('courser_streams_stopped_places{instance="a"}', "3x20", 1),
    "CourserDamageFound": ('courser_scrub_damaged_places{instance="a"}', "1x20", 1),
    "CourserDiskShort": ('courser_disk_times_short_total{instance="a"}', "0 1x20", 3),
    "CourserFault": ('courser_mqtt_fronts_panicked_total{instance="a"}', "0 1x20", 3),
    "CourserMemoryShort": ('courser_memory_bytes{instance="a", use="allocated"}', "95x20", 7),
    "CourserMessagesDropped": ('courser_messages_dropped_total{instance="a", reason="queue_full"}', "0 5x20", 3),
    "CourserConnectionsRefused": ('courser_doors_refused_total{instance="a", reason="over_limit"}', "0 5x20", 3),
    "CourserLoginsRefused": ('courser_auth_attempts_total{instance="a", result="refused"}', "0+120x30", 12),
    "CourserCertificateEnds": ('courser_tls_certificate_expiry_timestamp_seconds{instance="a", listener="tls"}', "86400x20", 1),
    "CourserSlowSync": ('courser_log_fsync_seconds_bucket{instance="a", le="0.5"}', "0+60x30", 20),
    "CourserShardBusy": ('courser_shard_busy_ratio{instance="a", shard="0"}', "0.95x30", 12),
    "CourserCheckpointsFail": ('courser_checkpoints_given_up_total{instance="a"}', "0 1x20", 3),
}
# What is there in each case, so that a quotient has something below its line.
BESIDE = [
    ('courser_memory_limit_bytes{instance="a"}', "100x30"),
    ('courser_log_fsync_seconds_bucket{instance="a", le="+Inf"}', "0+60x30"),
    ('courser_log_fsync_seconds_bucket{instance="a", le="0.1"}', "0x30"),
]
# A server that is well, busy, and loses nothing: nobody is to be woken.
WELL = [
    ('up{job="courser", instance="a"}', "1x60"),
    ('courser_ready{instance="a"}', "1x60"),
    ('courser_disk_failed{instance="a"}', "0x60"),
    ('courser_partitions_set_aside{instance="a"}', "0x60"),
    ('courser_streams_stopped_places{instance="a"}', "0x60"),
    ('courser_scrub_damaged_places{instance="a"}', "0x60"),
    ('courser_log_rotten_places{instance="a"}', "0x60"),
    ('courser_disk_times_short_total{instance="a"}', "3x60"),
    ('courser_mqtt_fronts_panicked_total{instance="a"}', "0x60"),
    ('courser_memory_bytes{instance="a", use="allocated"}', "60x60"),
    ('courser_memory_limit_bytes{instance="a"}', "100x60"),
    ('courser_messages_dropped_total{instance="a", reason="no_subscriber"}', "0+1000x60"),
    ('courser_messages_dropped_total{instance="a", reason="queue_full"}', "70x60"),
    ('courser_doors_refused_total{instance="a", reason="over_limit"}', "0x60"),
    ('courser_mqtt_connections_refused_total{instance="a"}', "0x60"),
    ('courser_mqtt_accept_failures_total{instance="a"}', "0x60"),
    ('courser_auth_attempts_total{instance="a", result="refused"}', "0+6x60"),
    ('courser_auth_attempts_total{instance="a", result="accepted"}', "0+6000x60"),
    ('courser_tls_certificate_expiry_timestamp_seconds{instance="a", listener="tls"}', "7776000x60"),
    ('courser_log_fsync_seconds_bucket{instance="a", le="0.005"}', "0+600x60"),
    ('courser_log_fsync_seconds_bucket{instance="a", le="+Inf"}', "0+600x60"),
    ('courser_shard_busy_ratio{instance="a", shard="0"}', "0.7x60"),
    ('courser_checkpoints_given_up_total{instance="a"}', "2x60"),
]


def expressions():
    """Of the panels and of the rules."""
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    folded = re.sub(r">-\n\s+", "", RULES)
    asked += re.findall(r"^ +expr: (.*(?:\n +or .*)*)", folded, re.MULTILINE)
    assert len(asked) > 40 + len(ALERTS) - 1
    return asked


def promtool(*arguments, **options):
    tool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not tool:
        pytest.skip("there is no promtool, and apt has none: name one in PROMTOOL")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_they_ask_for_is_there(brokers, tmp_path):
    """Every name with every label, on a server that has a certificate, an account of its own and a client that was refused."""
    files = Authority(tmp_path / "certificates").issue("server", "localhost", server_names())
    server = brokers.own(sys_interval=0, listeners=listener("tls", "mqtts", files=files))
    client = Raw(server, V5).connect("somebody")
    client.send(b"\0\0")
    client.expect_closed(0x81)
    with urllib.request.urlopen(server.http + "/metrics", timeout=20) as answer:  # noqa: S310
        families = list(text_string_to_metric_families(answer.read().decode()))
    # Labels of a sample; a scrape gives it these besides.
    said: dict[str, set[str]] = {}
    values: dict[tuple[str, str], set[str]] = {}
    for sample in (sample for family in families for sample in family.samples):
        said.setdefault(sample.name, {"instance", "job"}).update(sample.labels)
        for label, value in sample.labels.items():
            values.setdefault((sample.name, label), set()).add(value)
    selectors = [found for asked in expressions() for found in re.findall(r"\b(courser_\w+)(?:\{([^}]*)\})?", asked)]
    assert len({name for name, _ in selectors}) > 30
    for name, matchers in selectors:
        assert name in said, f"no server says {name}"
        for label, how, wanted in re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers):
            assert label in said[name], f"{name} has no label {label}"
            if label not in ("instance", "job"):
                for value in wanted.split("|") if how == "=~" else [wanted]:
                    assert value in values[name, label], f"{name} has no {label} {value}"
    for asked in expressions():
        for label in re.findall(r"by \(([\w, ]+)\)", asked):
            names = re.findall(r"\bcourser_\w+", asked)
            assert set(label.split(", ")) <= said[names[0]], asked


def test_every_panel_has_room_and_a_source():
    rows = [panel for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(panels) + len(rows)
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        places = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not places & taken, panel["title"]
        taken |= places
    for panel in panels:
        assert panel["targets"] and all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"]), panel["title"]


def test_the_dashboard_s_expressions_are_right(tmp_path):
    """As Prometheus parses them, the variables of Grafana filled in."""
    rules = [{"record": f"panel:{number}", "expr": asked.replace("$__rate_interval", "5m").replace("$instance", ".+")}
             for number, asked in enumerate(expressions())]
    page = tmp_path / "panels.json"
    page.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(page))


def test_every_alert_names_its_part_of_the_page():
    page = (ROOT / "docs/operations/alerts.md").read_text()
    parts = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert parts == ALERTS, "in the order of the rules"
    named = re.findall(r"runbook: docs/operations/alerts.md#(\w+)$", RULES, re.MULTILINE)
    assert named == [name.lower() for name in ALERTS]


def test_rules_fire_on_what_they_are_for_and_only_then(tmp_path):
    assert set(FIRES) == set(ALERTS)

    def case(series, minutes, firing):
        asked = [{"expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}})', "eval_time": f"{minutes}m",
                  "exp_samples": [{"labels": "{}", "value": 1}] if name in firing else []} for name in ALERTS]
        return {"interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series], "promql_expr_test": asked}

    cases = [case([(series, values), *(it for it in BESIDE if it[0] != series)], minutes, {name})
             for name, (series, values, minutes) in FIRES.items()]
    # Slow syncs are what the other series say; without the first one there is nothing slow about them.
    for number, name in enumerate(FIRES):
        if name != "CourserSlowSync":
            cases[number]["input_series"] = [it for it in cases[number]["input_series"] if "fsync" not in it["series"]]
    cases.append(case(WELL, 50, set()))
    shutil.copy(FOLDER / "alerts.yaml", tmp_path)
    page = tmp_path / "cases.json"
    page.write_text(json.dumps({"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": cases}))
    promtool("check", "rules", "alerts.yaml", cwd=tmp_path)
    promtool("test", "rules", "cases.json", cwd=tmp_path)
