//! The table of metrics.

use courser_broker::ShardReport;
use courser_broker::metrics::{CLOSES, DROPPED, PACKETS, VERSIONS, dropped_name};
use courser_memory::Component;

use super::{Kind, Metric, Of, Sample, Samples, Snapshot};

/// One number without labels.
fn one(number: u64) -> Vec<Sample> {
    vec![(Vec::new(), number as f64)]
}

/// One number that is there only where there is a disk.
fn disk(snapshot: &Snapshot, name: &str) -> Vec<Sample> {
    snapshot.disk(name).map_or_else(Vec::new, one)
}

/// A number for each value of one label.
fn each<'a>(values: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<Sample> {
    let values = values.into_iter();
    values
        .map(|(value, number)| (vec![value.to_owned()], number as f64))
        .collect()
}

/// A number for each shard.
fn shards(snapshot: &Snapshot, number: fn(&ShardReport) -> f64) -> Vec<Sample> {
    let reports = snapshot.shards.iter().enumerate();
    reports
        .map(|(shard, report)| (vec![shard.to_string()], number(report)))
        .collect()
}

macro_rules! samples {
    (Histogram, $of:expr) => {
        Samples::Durations($of)
    };
    ($kind:ident, $of:expr) => {
        Samples::Numbers($of)
    };
}

macro_rules! metrics {
    ($($name:literal, $kind:ident of $of:ident $([$($label:literal),+])?, $help:literal, $samples:expr;)+) => {
        pub(super) const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: Kind::$kind,
            of: Of::$of,
            help: $help,
            labels: &[$($($label),+)?],
            samples: samples!($kind, $samples),
        }),+];
    };
}

metrics! {
    "build", Info of Things ["version", "commit"], "The program that runs; no commit where it was built of sources without a repository",
        |it| vec![(vec![env!("CARGO_PKG_VERSION").to_owned(), it.commit.unwrap_or_default().to_owned()], 1.0)];
    "ready", Gauge of Things, "1 while it serves, as /readyz says",
        |it| one(it.ready.into());
    "disk_failed", Gauge of Things, "1 once the disk has failed: nothing is acknowledged any more",
        |it| one(it.disk_failed.into());
    "partitions_set_aside", Gauge of Things, "Partitions that do not serve because of damage or a fault of the program, as /readyz says",
        |it| one(it.set_aside);
    "streams_stopped_places", Gauge of Things, "Messages that sessions, groups and topics cannot get because the disk has lost them: courser inspect damage names them",
        |it| one(it.stopped_places);

    "mqtt_connections", Gauge of Things, "Open connections, those before their CONNECT included",
        |it| one(it.sum.connections);
    "mqtt_sockets", Counter of Things, "Sockets that were accepted",
        |it| one(it.sum.counters.sockets);
    "mqtt_sockets_moved", Counter of Things, "Connections that their shard gave to another one with their CONNECT, see server.placement",
        |it| one(it.sum.counters.sockets_moved);
    "mqtt_connects", Counter of Things, "Sessions that were attached to a connection",
        |it| one(it.sum.counters.connects);
    "mqtt_closes", Counter of Things ["cause"], "Connections that ended",
        |it| each(CLOSES.into_iter().zip(it.sum.counters.closes));
    "mqtt_closes_by_reason", Counter of Things ["reason_code"], "Connections that a fault of the client or a refusal has ended, by reason code of MQTT 5.0; codes that have not occurred are left out",
        |it| it.sum.counters.reasons.iter().filter(|&(_, count)| count > 0)
            .map(|(code, count)| (vec![format!("{code:#04x}")], count as f64)).collect();
    "mqtt_connections_refused", Counter of Things, "Sockets of plain TCP closed as soon as they were accepted because of a limit, and connections for which there was no room any more when their handshakes were over",
        |it| one(it.sum.counters.over_limit);
    "doors_refused", Counter of Things ["reason"], "Connections of TLS, WebSocket, PROXY protocol and Unix sockets that were not let in before their CONNECT: over_limit, too_fast, address_waits (it was too fast for a minute), timed_out, proxy, tls, websocket, identity, or lost on the way by the other side",
        |it| each(it.refused_at_doors.iter().copied());
    "mqtt_accept_failures", Counter of Things, "Times that accepting failed for want of descriptors or memory",
        |it| one(it.sum.counters.accept_failures);
    "mqtt_fronts_panicked", Counter of Things, "Connections that were closed because of a fault of the broker; more than 0 is worth a report",
        |it| one(it.sum.counters.fronts_panicked);
    "mqtt_sessions", Gauge of Things ["state"], "Sessions",
        |it| {
            let held = &it.sum.held;
            each([("connected", held.attached), ("disconnected", held.sessions.saturating_sub(held.attached))])
        };
    "mqtt_sessions_expired", Counter of Things, "Sessions that ended because their time was over",
        |it| one(it.sum.held.expired_sessions);
    "mqtt_received", Counter of Bytes, "Bytes read from clients",
        |it| one(it.sum.counters.bytes_received);
    "mqtt_sent", Counter of Bytes, "Bytes written to clients",
        |it| one(it.sum.counters.bytes_sent);
    "mqtt_packets_received", Counter of Things ["type", "version"], "Packets received, good or bad, of the types that clients send",
        |it| {
            let numbers = it.sum.counters.packets_received;
            let of_version = |(version, numbers): (&str, [u64; 16])| {
                PACKETS.map(|(name, number)| (vec![name.to_owned(), version.to_owned()], numbers[number] as f64))
            };
            VERSIONS.into_iter().zip(numbers).flat_map(of_version).collect()
        };
    "mqtt_packets_sent", Counter of Things, "Packets sent, of every type",
        |it| one(it.sum.counters.packets_sent);

    "messages_received", Counter of Things ["protocol", "qos"], "Publishes received",
        |it| ["0", "1", "2"].into_iter().zip(it.sum.counters.publishes_received_by_qos)
            .map(|(qos, count)| (vec!["mqtt".to_owned(), qos.to_owned()], count as f64)).collect();
    "messages_received_payload", Counter of Bytes ["protocol"], "Bytes of their payloads",
        |it| each([("mqtt", it.sum.counters.publish_bytes_received)]);
    "messages_delivered", Counter of Things ["protocol"], "Deliveries to connections",
        |it| each([("mqtt", it.sum.counters.publishes_sent)]);
    "messages_delivered_payload", Counter of Bytes ["protocol"], "Bytes of their payloads",
        |it| each([("mqtt", it.sum.counters.publish_bytes_sent)]);
    "messages_dropped", Counter of Things ["reason"], "Messages that did not reach a receiver",
        |it| each(DROPPED.into_iter().map(dropped_name).zip(it.sum.counters.dropped));
    "publish_to_ack", Histogram of Seconds, "Time from reading a publish of QoS 1 or 2 to handing its PUBACK or PUBREC to the socket",
        |it| &it.sum.latencies.acknowledged;
    "publish_to_deliver", Histogram of Seconds, "Time from reading a publish to handing a delivery of it to the socket. Left out: messages that waited in a session or a group, and retained ones",
        |it| &it.sum.latencies.delivered;
    "auth_attempts", Counter of Things ["result"], "Logins, where clients have to log in",
        |it| each([("accepted", it.sum.logins.accepted), ("refused", it.sum.logins.refused)]);
    "auth_dear_hash", Counter of Things, "Of the refused logins, those of users whose password hash takes more memory than a login may",
        |it| one(it.sum.logins.dear_hash);
    "auth_queued", Counter of Things, "Logins that waited for their turn, because as many of their address or of all were being looked at as may be",
        |it| one(it.sum.logins.queued);
    "auth_gave_up", Counter of Things, "Of these, logins whose connection or whose time (mqtt.connect_timeout) ended before they had it",
        |it| one(it.sum.logins.gave_up);
    "operator_logins", Counter of Things ["result"], "Requests to the API by name and password of a user: accepted, wrong, delayed because the address has failed too often, unavailable because passwords cannot be compared now, or forbidden because the user has no administration; and those with a token of operators that is wrong: wrong_token",
        |it| each(it.operator_logins.iter().copied());
    "tls_certificate_expiry_timestamp", Gauge of Seconds ["listener"], "When the certificate of a listener ends, in seconds since 1970",
        |it| it.certificates.iter().map(|(listener, end)| (vec![listener.clone()], *end as f64)).collect();
    "memory", Gauge of Bytes ["use"], "Memory: what the process has allocated in all, what of that holds messages, what of these are retained ones, what sessions and subscriptions count for (docs/limits.md), and what the system says is resident",
        |it| each([
            ("allocated", it.held.total()),
            ("stored_messages", it.sum.held.record_bytes),
            ("retained_messages", it.sum.held.retained_bytes),
            ("sessions", it.sum.held.session_bytes),
            ("resident", it.resident),
        ]);
    "memory_held", Gauge of Bytes ["component"], "What the process has allocated in all, by the part of the broker that asked for it: the sum is counted, the parts are estimated by a sample of one block in each 32 KiB or more",
        |it| each(Component::ALL.map(|component| (component.name(), it.held.of(component))));
    "memory_allocated", Counter of Bytes ["component"], "Bytes that were asked of the allocator, by the part of the broker that asked; what was freed again is not taken off. 0 in a program that does not count",
        |it| each(Component::ALL.map(|component| (component.name(), it.allocated.of(component).bytes)));
    "memory_allocations", Counter of Things ["component"], "How often that was",
        |it| each(Component::ALL.map(|component| (component.name(), it.allocated.of(component).allocations)));
    "memory_limit", Gauge of Bytes, "Bytes that the process may have: memory.max",
        |it| one(it.memory_max);
    "publishers_slowed", Counter of Things, "Times that a publisher was not read for a moment because a session cannot keep up with it",
        |it| one(it.sum.counters.publishers_slowed);
    "publishers_over_quota", Counter of Things, "Times that a client was not read for a while because it had published more than its user may",
        |it| one(it.sum.counters.publishers_over_quota);
    "closed_for_memory", Counter of Things, "Connections closed because memory was short and they held much of it without going on",
        |it| one(it.sum.counters.closed_for_memory);

    "subscriptions", Gauge of Things ["kind"], "Subscriptions",
        |it| {
            let held = &it.sum.held;
            each([("plain", held.subscriptions.saturating_sub(held.shared_subscriptions)), ("shared", held.shared_subscriptions)])
        };
    "retained_messages", Gauge of Things, "Retained messages of clients: the broker's own values under $SYS/ are not among them",
        |it| one(it.sum.held.retained_messages);
    "retained", Gauge of Bytes, "Encoded bytes of the retained messages",
        |it| one(it.sum.held.retained_bytes);
    "queued_messages", Gauge of Things, "Messages that wait for sessions and shared groups",
        |it| one(it.sum.held.queued_messages);
    "stored_messages", Gauge of Things, "Stored messages, each once however many wait for it",
        |it| one(it.sum.held.records);
    "stored", Gauge of Bytes, "Bytes that hold those of them that are in memory",
        |it| one(it.sum.held.record_bytes);
    "cold_messages", Gauge of Things, "Those of them that are only in the log: session.hot_bytes",
        |it| one(it.sum.held.cold_records);
    "forwards_waiting", Gauge of Things, "Messages on their way from one partition to another",
        |it| one(it.sum.held.outbox_messages);

    "shard_connections", Gauge of Things ["shard"], "Connections of a shard",
        |it| shards(it, |report| report.connections as f64);
    "shard_turns", Counter of Things ["shard"], "Passes of a shard over all that is ready",
        |it| shards(it, |report| report.counters.turns as f64);
    "shard_turn", Histogram of Seconds, "CPU time of the turns of all shards",
        |it| &it.sum.latencies.turns;
    "shard_longest_turn", Gauge of Seconds ["shard"], "Longest of them so far, in CPU time of its thread",
        |it| shards(it, |report| report.counters.longest_turn_us as f64 / 1e6);
    "shard_longest_save", Gauge of Seconds ["shard"], "The longest so far of what one of them did for a checkpoint, in CPU time of its thread",
        |it| shards(it, |report| report.counters.longest_save_us as f64 / 1e6);
    "shard_cpu", Counter of Seconds ["shard"], "CPU time of a shard's thread",
        |it| shards(it, |report| report.cpu_us as f64 / 1e6);
    "shard_busy", Gauge of Ratio ["shard"], "Part of the time that a shard's thread was busy since it was last asked, a second ago or more: 0 to 1",
        |it| shards(it, |report| report.busy);
    "shard_queue_depth", Gauge of Things ["shard"], "Sockets that wait to be looked at",
        |it| shards(it, |report| report.queued_sockets as f64);
    "shard_allocations", Counter of Things ["shard"], "Times that a shard has asked for memory; 0 in a program that does not count",
        |it| shards(it, |report| report.allocations as f64);

    "log_syncs", Counter of Things, "Times that the log was synced",
        |it| disk(it, "log_syncs");
    "log_batches", Counter of Things, "Writes of the log",
        |it| disk(it, "log_batches");
    "log_records", Counter of Things, "Records in them",
        |it| disk(it, "log_records");
    "log_written", Counter of Bytes, "Bytes written to the log",
        |it| disk(it, "log_bytes");
    "log_append", Histogram of Seconds, "Time to write a batch to the log",
        |it| &it.log.append;
    "log_fsync", Histogram of Seconds, "Time to sync what was written",
        |it| &it.log.fsync;
    "raft_commit", Histogram of Seconds, "Time until a batch of entries is committed, from when it is begun to be written: on a node alone, until it is synced",
        |it| &it.log.commit;
    "raft_leader_changes", Counter of Things, "Times that a partition which is kept began or ceased to be led by this node; each begins once with a start",
        |it| one(it.sum.counters.leader_changes);
    "log_segments", Gauge of Bytes, "Bytes of the log's segments on the disk, those included that are ready to be used or are to be removed",
        |it| disk(it, "log_segments_bytes");
    "log_segments_created", Counter of Things, "Segments that were made",
        |it| disk(it, "log_created_segments");
    "log_segments_recycled", Counter of Things, "Segments that were used again",
        |it| disk(it, "log_recycled_segments");
    "log_rolls_unprepared", Counter of Things, "Times that the log had to wait for its next segment",
        |it| disk(it, "log_rolls_unprepared");
    "log_segments_cleaned", Counter of Things, "Segments that were used again since the cleaner had moved what was needed of them",
        |it| disk(it, "log_cleaned_segments");
    "log_kept_records", Counter of Things, "Records that the cleaner moved",
        |it| disk(it, "log_kept_records");
    "log_kept", Counter of Bytes, "Bytes of the log that the cleaner wrote: all written, divided by all written without these, is the write amplification",
        |it| disk(it, "log_kept_bytes");
    "cleaner_read", Counter of Bytes, "Bytes of segments and checkpoints that the cleaner read",
        |it| disk(it, "cleaner_read_bytes");
    "recall_read", Counter of Bytes, "Bytes of segments that were read for messages that are only in the log",
        |it| disk(it, "recall_read_bytes");
    "recalled", Counter of Bytes, "Bytes of those messages",
        |it| disk(it, "recalled_bytes");
    "recalled_messages", Counter of Things, "Messages that were read back from the log",
        |it| disk(it, "recalled_records");
    "recall_questions", Counter of Things, "Times that a partition asked for some",
        |it| disk(it, "recall_questions");
    "recall_rounds", Counter of Things, "Times that the reading went through the log",
        |it| disk(it, "recall_rounds");
    "recalled_lost", Counter of Things, "Messages that could not be read back: their streams stop there",
        |it| disk(it, "recalled_lost");
    "recall_held_up", Counter of Things, "Times that the reading has rested because something was not to be had for the moment, such as a descriptor",
        |it| disk(it, "recall_held_up");
    "recall_index", Gauge of Bytes, "Memory of the reading's indexes, which say where the cleaner has moved messages; part of that of `log`",
        |it| disk(it, "recall_index_bytes");
    "cleaner_given_up", Counter of Things, "Segments and checkpoints that the cleaner left as they are: damaged, with more in them than was thought, or with a message that is larger than a batch",
        |it| disk(it, "cleaner_given_up");
    "cleaner_segments_in_pieces", Gauge of Things, "Segments that the cleaner left when it last looked, since something in them is needed of an entry that is larger than a batch, such as a message",
        |it| disk(it, "cleaner_segments_in_pieces");
    "log_recovered_entries", Gauge of Things, "Entries that the last start read",
        |it| disk(it, "log_recovered_entries");
    "log_cut", Gauge of Bytes, "Bytes of an unfinished write that the last start cut off",
        |it| disk(it, "log_cut_bytes");
    "log_rotten_places", Gauge of Things, "Places of the log whose checksum was wrong at the last start",
        |it| disk(it, "log_rotten_places");
    "scrub_segments", Counter of Things, "Segments that were read and checked in the background",
        |it| disk(it, "scrub_segments");
    "scrub_read", Counter of Bytes, "Their bytes",
        |it| disk(it, "scrub_bytes");
    "scrub_passes", Counter of Things, "Times that all segments were",
        |it| disk(it, "scrub_passes");
    "scrub_damages", Counter of Things, "Damaged places that were found by that",
        |it| disk(it, "scrub_damages");
    "scrub_damaged_places", Gauge of Things, "Those in segments that still hold something, and damaged checkpoints and files beside them: courser inspect damage says what they concern",
        |it| one(it.rotten);
    "log_entries_skipped", Counter of Things, "Entries that were not applied because of courser repair --skip",
        |it| disk(it, "log_entries_skipped");
    "checkpoints", Counter of Things, "Checkpoints that were finished",
        |it| disk(it, "checkpoints");
    "checkpoint_written", Counter of Bytes, "Bytes of checkpoints",
        |it| disk(it, "checkpoint_bytes");
    "checkpoints_given_up", Counter of Things, "Checkpoints that were not finished",
        |it| disk(it, "checkpoints_given_up");
    "disk_times_short", Counter of Things, "Times that the disk came below log.reserve_bytes: publishes that would be kept were refused",
        |it| disk(it, "disk_times_short");
    "log_waits_for_room", Gauge of Seconds, "How long what is to be acknowledged has waited for room on the disk, with the reserve used up; 0 while it does not. From 5 s on /readyz says so",
        |it| vec![(Vec::new(), it.waits_for_room)];
}
