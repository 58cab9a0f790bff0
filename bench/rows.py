"""The rows of the table: a workload, the figures read from its result, and what they may be at most."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

CPU = "broker_cpu_seconds_per_million"


@dataclasses.dataclass(frozen=True)
class Figure:
    """One number of a row.

    `target` is what ours may be; `seen` are figures of peers on a quiet machine of the same kind (2 cores, loopback). In a run
    the best peer that lost nothing decides: ours may be its figure times target / seen. Without `seen` the target alone decides.
    """

    name: str
    unit: str
    key: str
    # None: it is only told.
    target: float | None
    seen: dict[str, float] = dataclasses.field(default_factory=dict)
    # Peers count as they are in this run: ours may be `target` times the best of them.
    relative: bool = False
    # A figure of our own run that is added to the peer's first: what ours has to do and the peer has not.
    plus: str | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    arguments: tuple[str, ...]
    figures: tuple[Figure, ...]
    # Whether a run of this row has nothing to lose: losses of QoS 0 or of a storm are not the row's business. A connection that failed is.
    may_lose: bool = False
    skip: tuple[str, ...] = ()
    # So many seconds after the load began the longest turn of ours is read.
    look_after: float | None = None


def cpu(target: float, **seen: float) -> tuple[Figure, ...]:
    return (Figure("CPU", "s per million in + out", CPU, target, {k.replace("_", "-"): v for k, v in seen.items()}),)


def paced(*flags: str) -> tuple[str, ...]:
    """Flags of `courser bench mqtt`: without a rate it is a closed loop here, as fast as the windows allow."""
    return flags if "--rate" in flags else (*flags, "--closed")


def mqtt(*arguments: str) -> tuple[str, ...]:
    return ("mqtt", *paced(*arguments))


LATENCY = mqtt("-q", "1", "-s", "128", "--rate", "5000")

ROWS = (
    Row("QoS 0, 1 to 1, 64 B, at most 5,000 under way",
        mqtt("-q", "0", "-s", "64", "--in-flight-max", "5000"), cpu(0.20, mosquitto=6.1, rumqttd=1.9, nats_server=1.05, flashmq=0.95)),
    Row("QoS 0, 1 to 50, 64 B",
        mqtt("-q", "0", "-s", "64", "--subscribers", "50", "--in-flight-max", "25000"),
        cpu(0.08, mosquitto=7.2, rumqttd=0.39, nats_server=0.88, flashmq=2.5)),
    Row("QoS 0, 10,000 topics, one wildcard subscriber",
        mqtt("-q", "0", "-s", "64", "--topics", "10000", "--pattern", "wildcard", "--in-flight-max", "5000"),
        cpu(0.22, mosquitto=6.0, rumqttd=2.1, nats_server=1.5, flashmq=0.67)),
    Row("QoS 1, 1 to 1, 128 B, window 100",
        mqtt("-q", "1", "-s", "128", "-w", "100"), cpu(0.45, mosquitto=11.8, rumqttd=2.2, nats_server=16, flashmq=1.4)),
    Row("QoS 1, 8 pairs, window 20 each",
        mqtt("-q", "1", "-s", "128", "-w", "20", "--publishers", "8", "--subscribers", "8", "--topics", "8"),
        cpu(0.60, mosquitto=12.0, rumqttd=3.0, nats_server=18, flashmq=0.93)),
    Row("QoS 2, 1 to 1, 128 B, window 100",
        mqtt("-q", "2", "-s", "128", "-w", "100"), cpu(0.80, mosquitto=23.8, rumqttd=2.7, nats_server=50, flashmq=1.7)),
    Row("QoS 1, shared group of 4, one publisher",
        mqtt("-q", "1", "-s", "128", "-w", "100", "--subscribers", "4", "--share", "g"),
        cpu(0.70, mosquitto=14.3, rumqttd=2.9, flashmq=1.6), skip=("nats-server",)),
    Row("10,000 retained messages", ("retained", "--topics", "10000", "-s", "64"), (
        Figure("store CPU", "s per million", "stored_" + CPU, 1.0, {"mosquitto": 14.5, "rumqttd": 5.0, "nats-server": 54, "flashmq": 3.0}),
        Figure("replay CPU", "s per million", "replayed_" + CPU, 0.6,
               {"mosquitto": 10.5, "rumqttd": 150, "nats-server": 64, "flashmq": 2.5}))),
    Row("QoS 1 for an absent session, then drained", ("absent", "-n", "50000", "-s", "128", "--topics", "1"), (
        Figure("store CPU", "s per million", "stored_" + CPU, 1.0, {"mosquitto": 13.2, "rumqttd": 2.8, "nats-server": 18}),
        Figure("drain CPU", "s per million", "replayed_" + CPU, 0.5, {"mosquitto": 7.7, "rumqttd": 0.9, "nats-server": 13}))),
    Row("5,000 messages/s of QoS 1, open loop", LATENCY, (
        Figure("p50", "µs", "delivery_p50_us", 1.0, {"mosquitto": 1.0}, relative=True),
        Figure("p99", "µs", "delivery_p99_us", 1.0, {"mosquitto": 1.0}, relative=True),
        Figure("CPU", "s per million in + out", CPU, 1.1, {"mosquitto": 1.0}, relative=True))),
    Row("10,000 idle connections", ("connect", "-n", "10000", "--hold", "2"), (
        Figure("RSS each", "B", "broker_resident_bytes_per_connection", 1500, {"mosquitto": 733}),
        Figure("CPU each", "µs", "broker_cpu_us_per_connection", 30, {"mosquitto": 36, "rumqttd": 217, "nats-server": 278, "flashmq": 31}),
        # Half a percent of a core while the connections are held.
        Figure("CPU of two idle seconds", "s", "broker_idle_cpu_seconds", 0.01)), may_lose=True),
    Row("10,000 idle connections with a subscription each", ("connect", "-n", "10000", "--subscriptions", "1"), (
        Figure("RSS each", "B", "broker_resident_bytes_per_connection", 2000, {"mosquitto": 1764}),), may_lose=True),
)


def is_whole(row: Row, result: dict[str, Any]) -> bool:
    """Whether the run and each of its connections came to its end, and nothing that must arrive was lost, repeated or out of order."""
    lost = ["lost", "duplicates_unmarked", "out_of_order", "foreign", "wrong"]
    if _at_most_once(row.arguments):
        lost.append("duplicates_marked")
    wrong = ("failures",) if row.may_lose else ("failures", *lost)
    return all(result.get(name, 0) == 0 for name in wrong)


def _at_most_once(arguments: tuple[str, ...]) -> bool:
    """Only at QoS 1 may a message come again, marked as such."""
    return any(pair == ("-q", "2") for pair in zip(arguments, arguments[1:]))


def durable(*arguments: str) -> tuple[str, ...]:
    """Sessions of both sides outlive their connections. A disk that stands still for some seconds has lost nothing."""
    return mqtt("--persistent", "--persistent-publishers", "-s", "128", "--drain", "10", *arguments)


def pairs(count: int) -> tuple[str, ...]:
    return ("--publishers", str(count), "--subscribers", str(count), "--topics", str(count))


# What is kept on a disk and synced before it is acknowledged; peers have their own defaults, none of which syncs first.
DURABLE = (
    Row("durable: QoS 1, 1 to 1, window 100",
        durable("-q", "1", "-w", "100"), cpu(0.95, mosquitto_kept=12.6, nats_server=13.9, rumqttd=2.3)),
    Row("durable: QoS 1, 8 pairs, window 20 each",
        durable("-q", "1", "-w", "20", *pairs(8)), cpu(1.2, mosquitto_kept=13, nats_server=18, rumqttd=3.0)),
    Row("durable: QoS 1, 64 pairs, window 50 each", durable("-q", "1", "-w", "50", *pairs(64)), cpu(0.50)),
    Row("durable: QoS 1, 64 pairs, one at a time each", durable("-q", "1", "-w", "1", *pairs(64)), cpu(10)),
    Row("durable: QoS 2, 1 to 1, window 100",
        durable("-q", "2", "-w", "100"), cpu(2.2, mosquitto_kept=24.8, nats_server=50, rumqttd=2.7)),
    Row("durable: QoS 1 for an absent session, then drained", ("absent", "-n", "50000", "-s", "128", "--topics", "1"), (
        Figure("store CPU", "s per million", "stored_" + CPU, 1.2, {"mosquitto-kept": 12.7, "nats-server": 18, "rumqttd": 2.8}),
        Figure("drain CPU", "s per million", "replayed_" + CPU, 0.6, {"mosquitto-kept": 8.0, "nats-server": 13, "rumqttd": 0.9}))),
    # Beside a bare relay that does not sync (`--add 'unsynced=…'`): ours may be a fifth slower than that and the syncs of its own run together. Each
    # message has a sync of its own here, so CPU per message is that of the disk and is only told.
    Row("durable: 5,000 messages/s of QoS 1, open loop", durable("-q", "1", "--rate", "5000"), (
        Figure("p50", "µs", "delivery_p50_us", 1.2, {"unsynced": 1.0}, relative=True, plus="log_commit_p50_us"),
        Figure("p99", "µs", "delivery_p99_us", 1.2, {"unsynced": 1.0}, relative=True, plus="log_commit_p99_us"),
        Figure("write and sync p50", "µs", "log_commit_p50_us", None),
        Figure("write and sync p99", "µs", "log_commit_p99_us", None),
        Figure("CPU", "s per million in + out", CPU, None))),
)


def over_tls() -> tuple[Figure, ...]:
    """At most 2.5 times what the same broker takes without TLS."""
    return (Figure("CPU", "s per million in + out", CPU, 2.5, {"courser": 1.0}, relative=True),)


# To be run on `courser` and `courser-tls`.
OVER_TLS = (
    Row("TLS: QoS 0, 1 to 1, 128 B, at most 5,000 under way", mqtt("-q", "0", "-s", "128", "--in-flight-max", "5000"), over_tls()),
    Row("TLS: QoS 1, 1 to 1, 128 B, window 100", mqtt("-q", "1", "-s", "128", "-w", "100"), over_tls()),
    # With CONNECT and the first subscription, which are the shards' share.
    Row("TLS: 300 new connections a second, ten seconds", ("connect", "-n", "3000", "--rate", "300", "--subscriptions", "1", "--hold", "3"), (
        Figure("CPU each", "µs", "broker_cpu_us_per_connection", None),
        Figure("longest turn of a shard while they come", "µs of its CPU", "longest_turn_us_meanwhile", 1_000),
        Figure("turns of more than 1 ms while they come", "of all", "turns_over_1ms_meanwhile", None),
        Figure("turns while they come", "", "turns_meanwhile", None),
        # All of them ping and close at once.
        Figure("longest turn of a shard, the end included", "µs of its CPU", "longest_turn_us", None)), may_lose=True, look_after=11.5),
)


def matching(patterns: list[str], table: tuple[Row, ...] = ROWS) -> list[Row]:
    """Rows whose name contains one of the patterns; all without a pattern."""
    contains: Callable[[Row], bool] = lambda row: any(pattern.lower() in row.name.lower() for pattern in patterns)
    return [row for row in table if not patterns or contains(row)]
