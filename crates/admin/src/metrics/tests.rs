use super::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

fn snapshot() -> Snapshot {
    let mut sum = ShardReport::default();
    sum.counters.publishes_received_by_qos = [7, 8, 9];
    sum.counters.longest_turn_us = 1_500;
    sum.counters.leader_changes = 4;
    Snapshot {
        shards: vec![sum.clone()],
        sum,
        disk: vec![("log_syncs", 3), ("log_segments_bytes", 11)],
        log: LogTimes::default(),
        commit: Some("0123456789ab"),
        ready: true,
        disk_failed: false,
        waits_for_room: 2.5,
        set_aside: 2,
        stopped_places: 0,
        rotten: 0,
        certificates: vec![("tls".to_owned(), 1_900_000_000)],
        refused_at_doors: vec![("tls", 2)],
        operator_logins: vec![("accepted", 3), ("wrong", 1)],
        memory_max: 7,
        held: courser_memory::Held::share_out(5, [0, 2, 0, 0, 0, 2, 0, 0, 0, 1]),
        allocated: courser_memory::Snapshot::default(),
        resident: resident_bytes(),
    }
}

#[test]
fn the_reference_page_says_what_the_table_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    if env::var_os("COURSER_BLESS").is_some() {
        fs::write(&page, reference_markdown()).expect("the page can be written");
    }
    let written = fs::read_to_string(&page).expect("docs/reference/metrics.md can be read");
    assert!(
        written == reference_markdown(),
        "docs/reference/metrics.md is old; run: COURSER_BLESS=1 cargo test -p courser-admin reference",
    );
}

#[test]
fn every_family_has_its_own_name_and_as_many_values_as_labels() {
    let names: BTreeSet<String> = METRICS.iter().map(Metric::full_name).collect();
    assert_eq!(names.len(), METRICS.len());
    let snapshot = snapshot();
    for metric in METRICS {
        assert!(
            !metric.help.ends_with('.'),
            "{}: the encoder adds the dot",
            metric.name
        );
        let Samples::Numbers(samples) = metric.samples else {
            assert_eq!(metric.kind, Kind::Histogram);
            continue;
        };
        for (values, _) in samples(&snapshot) {
            assert_eq!(values.len(), metric.labels.len(), "{}", metric.name);
        }
    }
}

#[test]
fn numbers_stand_under_the_names_of_the_reference_page() {
    let text = encode(snapshot());
    for line in [
        "courser_messages_received_total{protocol=\"mqtt\",qos=\"0\"} 7.0",
        "courser_messages_received_total{protocol=\"mqtt\",qos=\"2\"} 9.0",
        "courser_log_segments_bytes 11.0",
        "# TYPE courser_log_append_seconds histogram",
        "courser_log_fsync_seconds_count 0",
        "courser_raft_commit_seconds_count 0",
        "courser_raft_leader_changes_total 4.0",
        "courser_log_syncs_total 3.0",
        "courser_ready 1.0",
        "courser_log_waits_for_room_seconds 2.5",
        "courser_partitions_set_aside 2.0",
        "courser_tls_certificate_expiry_timestamp_seconds{listener=\"tls\"} 1900000000.0",
        "courser_memory_bytes{use=\"allocated\"} 5.0",
        "courser_memory_held_bytes{component=\"connections\"} 2.0",
        "courser_memory_held_bytes{component=\"control\"} 1.0",
        "courser_memory_allocated_bytes_total{component=\"partitions\"} 0.0",
        "courser_memory_allocations_total{component=\"log\"} 0.0",
        "courser_memory_limit_bytes 7.0",
        "# TYPE courser_publish_to_ack_seconds histogram",
        "courser_publish_to_ack_seconds_bucket{le=\"0.001\"} 0",
        "courser_publish_to_ack_seconds_bucket{le=\"+Inf\"} 0",
        "courser_publish_to_ack_seconds_count 0",
        "courser_shard_longest_turn_seconds{shard=\"0\"} 0.0015",
        "# UNIT courser_mqtt_received_bytes bytes",
        "# TYPE courser_mqtt_received_bytes counter",
        concat!(
            "courser_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\",commit=\"0123456789ab\"} 1"
        ),
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(
        !text.contains("checkpoints_total "),
        "without a disk's number there is no sample"
    );
}

/// As `promtool check metrics` reads it: every sample is of the family that was begun last, whose kind that format has, with a text.
#[test]
fn the_older_text_format_says_the_same_in_its_own_form() {
    let newer = encode(snapshot());
    let text = Format::Text.of(newer.clone());
    let mut family = String::new();
    let mut kind = "";
    let mut helped = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, said) = help.split_once(' ').expect("a name and a text");
            assert!(!said.is_empty(), "{line}");
            helped = name.to_owned();
        } else if let Some(named) = line.strip_prefix("# TYPE ") {
            (family, kind) = named
                .split_once(' ')
                .map(|(name, kind)| (name.to_owned(), kind))
                .expect("a name and a kind");
            assert_eq!(family, helped);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
        } else {
            assert!(!line.starts_with('#'), "{line}");
            let name = line.split(['{', ' ']).next().expect("a name");
            let part = name.strip_prefix(&*family).unwrap_or("another");
            let parts: &[&str] = match kind {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(parts.contains(&part), "{line} is not of {family}");
        }
    }
    let samples = |text: &str| {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(samples(&text), samples(&newer));
    assert!(text.contains("# TYPE courser_build_info gauge\ncourser_build_info{"));
}

#[test]
fn the_older_text_format_is_for_who_takes_no_other() {
    const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    for (accept, expected) in [
        (None, Format::OpenMetrics),
        (Some("*/*"), Format::OpenMetrics),
        (Some("application/openmetrics-text"), Format::OpenMetrics),
        (Some(PROMETHEUS), Format::OpenMetrics),
        (Some("text/plain"), Format::Text),
        (Some("Text/Plain;version=0.0.4;q=1,*/*;q=0.1"), Format::Text),
        (Some("text/html, text/plain; q=0.5"), Format::Text),
    ] {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(header::ACCEPT, accept.parse().expect("a value"));
        }
        assert_eq!(Format::wanted(&headers), expected, "{accept:?}");
    }
}
