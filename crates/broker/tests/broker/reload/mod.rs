//! Settings that change while a broker runs: nobody is dropped, and each setting that needs no restart does what it says.

mod probes;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use courser_broker::Broker;
use courser_broker::metrics::CLOSES;
use courser_contract::ShardId;
use courser_settings::{Applies, Settings, Sources, table};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{Client, asked, publish};

/// Clients that stay through all reloads.
const CLIENTS: usize = 1_000;
/// Messages for all of them together.
const MESSAGES: u8 = 40;

/// How often it is looked for a change.
const LOOKS: usize = 3;

fn settings(changes: &[&str]) -> Settings {
    let start = ["mqtt.listen=127.0.0.1:0", "data.store=memory"];
    let all = start.iter().chain(changes);
    let sources = all.fold(Sources::new(), |sources, change| sources.set(change));
    sources.check().expect("the settings of a test are right")
}

/// Starts with `before`, looks, changes to `after`, looks again. What was not seen as it should be.
fn look_twice(row: &probes::Row) -> Option<String> {
    let before: Vec<&str> = row.given.iter().copied().chain([row.before]).collect();
    let after: Vec<&str> = row.given.iter().copied().chain([row.after]).collect();
    let broker: Broker = crate::support::broker(2, &before, |_| {});
    let address = broker.addresses()[0];
    let seen_before = (row.probe)(address);
    broker.reconfigure(settings(&after));
    // Shards take settings at their next turn, each for itself.
    let mut seen_after = String::new();
    for _ in 0..LOOKS {
        seen_after = (row.probe)(address);
        if seen_after == row.seen_after {
            break;
        }
    }
    broker.stop().expect("the broker stops");
    let seen = (seen_before.as_str(), seen_after.as_str());
    let expected = (row.seen_before, row.seen_after);
    (seen != expected).then(|| {
        let (before, after) = (row.before, row.after);
        format!("{before}, then {after}: {seen:?} instead of {expected:?}")
    })
}

#[test]
fn every_setting_that_needs_no_restart_really_changes() {
    let wrong: Vec<String> = probes::ROWS.iter().filter_map(look_twice).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Settings whose effect no client sees: the log's are those of the process (`crates/courser/tests/reload`), a backup takes its
/// pace when it begins, how many connections a user has only who logs in sees (`owners.rs`), and how many sessions (`kept_sessions.rs`), the scrub asks for its period again and again, and an address is told to operators (`tests/listeners.rs`). Messages
/// become too old in `crates/broker/tests/broker/aging.rs`, leave memory in `cold.rs` there, and who fails to log in waits in `login_failures.rs`.
const SEEN_ELSEWHERE: [&str; 14] = [
    "backup.bytes_per_second",
    "limits.connections",
    "limits.sessions",
    "log.format",
    "log.level",
    "login_failures.address_max",
    "login_failures.forget_after",
    "login_failures.wait_first",
    "login_failures.wait_max",
    "mqtt.advertised",
    "retained.age_max",
    "scrub.period",
    "session.hot_bytes",
    "session.queue_age_max",
];

#[test]
fn every_setting_that_needs_no_restart_has_a_row() {
    let key = |row: &probes::Row| row.after.split_once('=').expect("KEY=VALUE").0.to_owned();
    let elsewhere = SEEN_ELSEWHERE.iter().map(|&key| key.to_owned());
    let rows: BTreeSet<String> = probes::ROWS.iter().map(key).chain(elsewhere).collect();
    let live: BTreeSet<String> = table()
        .iter()
        .filter(|setting| setting.applies != Applies::Restart)
        .map(|setting| setting.key.to_owned())
        .collect();
    assert_eq!(rows, live);
}

/// Settings of a listener of which a running broker takes over what a reload brings: `tests/listeners.rs` looks at each of them. The
/// others are read once, at the start.
const OF_A_LISTENER: [&str; 10] = [
    "listener.advertised",
    "listener.connect_bytes_max",
    "listener.connect_timeout",
    "listener.connections_max",
    "listener.keep_alive_max_seconds",
    "listener.packet_bytes_max",
    "listener.receive_maximum",
    "listener.redirect_to",
    "listener.session_expiry_max",
    "listener.topic_alias_max",
];

#[test]
fn what_a_listener_reads_at_the_start_needs_a_restart() {
    let lists = courser_settings::lists();
    let fields = lists.iter().flat_map(|list| &list.fields);
    let live = fields.filter(|field| field.applies != Applies::Restart);
    let live: BTreeSet<&str> = live.map(|field| field.key).collect();
    assert_eq!(live, OF_A_LISTENER.into());
}

/// Clients with a topic each.
fn thousand(address: SocketAddr) -> Vec<Client> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("the limit of descriptors can be raised");
    (0..CLIENTS)
        .map(|number| {
            let mut client = Client::connect(address, &format!("client-{number}"));
            client.subscribe(&format!("to/{number}"), 1);
            client
        })
        .collect()
}

#[test]
fn a_reload_drops_none_of_a_thousand_clients() {
    let broker = crate::support::broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut clients = thousand(address);
    let mut publisher = Client::connect(address, "publisher");
    for (round, changes) in [
        &["mqtt.receive_maximum=7", "session.queue_messages_max=5"][..],
        &[
            "listeners.connections_max=10",
            "mqtt.client_id_bytes_max=23",
        ],
        &["mqtt.redirect_to=elsewhere", "mqtt.subscriptions_max=1"],
        &["mqtt.output_bytes_max=64KiB", "sys.interval=100ms"],
        &[],
    ]
    .iter()
    .enumerate()
    {
        broker.reconfigure(settings(changes));
        for number in 0..CLIENTS {
            let payload = round.to_string();
            publisher.send_raw(&publish(&format!("to/{number}"), 0, 0, payload.as_bytes()));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let (topic, payload) = client.receive_publish();
            assert_eq!(topic, format!("to/{number}"));
            assert_eq!(payload, round.to_string().as_bytes());
            client.send(0xC0, &[]);
            assert_eq!(client.receive().first, 0xD0, "the answer to a ping");
        }
    }
    broker.stop().expect("the broker stops");
}

/// What a turn does is bounded by counts, so that those who have nothing to do with it wait for one turn's part of it: of a thousand that ask
/// and a thousand that end, each in a moment.
#[test]
fn a_thousand_that_ask_and_end_at_once_are_spread_over_turns() {
    let broker = crate::support::broker(1, &[], |_| {});
    let address = broker.addresses()[0];
    let mut clients = thousand(address);
    clients.iter_mut().for_each(|client| client.send(0xC0, &[]));
    for client in &mut clients {
        assert_eq!(client.receive().first, 0xD0, "each has its answer");
    }
    drop(clients);
    let control = broker.control();
    let lost = CLOSES.iter().position(|&name| name == "lost");
    let counters = loop {
        let report = asked(control.report(ShardId(0))).expect("it runs");
        let ended = report.counters.closes[lost.expect("a kind")];
        if ended == CLIENTS as u64 && report.connections == 0 {
            break report.counters;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let (closed, written) = (counters.most_closed_in_turn, counters.most_written_in_turn);
    // A turn's budget for sockets, by what each costs at least; whoever is begun is finished.
    assert!((1..=11).contains(&closed), "{closed} ended in one turn");
    assert!(
        (1..=26).contains(&written),
        "{written} were answered in one turn"
    );
    broker.stop().expect("nothing failed");
}

/// The same of those that come: while the shard has all that it can do, three hundred want to be let in.
#[test]
fn a_storm_of_newcomers_is_let_in_over_turns() {
    const NEWCOMERS: usize = 300;
    let broker = crate::support::broker(1, &[], |_| {});
    let address = broker.addresses()[0];
    let mut clients = thousand(address);
    for _ in 0..10 {
        clients.iter_mut().for_each(|it| it.send(0xC0, &[]));
    }
    let newcomers = (0..NEWCOMERS).map(|_| Client::open(address));
    let newcomers: Vec<_> = newcomers.collect();
    for client in &mut clients {
        for _ in 0..10 {
            assert_eq!(client.receive().first, 0xD0, "each has its answer");
        }
    }
    let control = broker.control();
    let counters = loop {
        let report = asked(control.report(ShardId(0))).expect("it runs");
        if report.counters.sockets == (CLIENTS + NEWCOMERS) as u64 {
            break report.counters;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let let_in = counters.most_let_in_in_turn;
    // A turn's budget by what each of them costs, and whoever is begun is finished.
    assert!((2..=21).contains(&let_in), "{let_in} came in in one turn");
    drop(newcomers);
    broker.stop().expect("nothing failed");
}

/// One message for a thousand and more, too many for a run, is as many writes: they are spread over turns, everybody gets everything in order, and
/// who is answered meanwhile gets the answer.
#[test]
fn messages_for_a_thousand_are_written_over_turns() {
    let broker = crate::support::broker(1, &[], |_| {});
    let address = broker.addresses()[0];
    let mut clients = thousand(address);
    clients.extend((0..100).map(|number| Client::connect(address, &format!("more-{number}"))));
    clients.iter_mut().for_each(|it| it.subscribe("all", 1));
    let mut publisher = Client::connect(address, "publisher");
    for number in 1..=MESSAGES {
        publisher.send_raw(&publish("all", number % 2, number.into(), &[number]));
    }
    let mut other = Client::connect(address, "other");
    other.send(0xC0, &[]);
    assert_eq!(other.receive().first, 0xD0, "the answer to a ping");
    for client in &mut clients {
        let mut last = [0; 2];
        for _ in 0..MESSAGES {
            let (_, payload) = client.receive_publish();
            let of_its_qos = &mut last[usize::from(payload[0] % 2)];
            assert!(payload[0] > *of_its_qos, "the order of each QoS is kept");
            *of_its_qos = payload[0];
        }
    }
    let control = broker.control();
    let report = asked(control.report(ShardId(0))).expect("it runs");
    let counters = report.counters;
    let (written, delivered) = (
        counters.most_written_in_turn,
        counters.most_delivered_in_turn,
    );
    assert!(
        (2..=128).contains(&written),
        "{written} sockets were written in one turn"
    );
    // Of 88,000: two budgets for far receivers, and what is begun is finished.
    assert!(
        (2..=2_200).contains(&delivered),
        "{delivered} messages were handed out in one turn"
    );
    // Those for whom it waits go in the middle, and others come into their places.
    for number in 1..=MESSAGES {
        publisher.send_raw(&publish("all", number % 2, number.into(), &[number]));
    }
    drop(clients);
    for number in 0..CLIENTS / 4 {
        let mut stranger = Client::connect(address, &format!("stranger-{number}"));
        stranger.send(0xC0, &[]);
        assert_eq!(stranger.receive().first, 0xD0, "nothing of another's");
    }
    broker.stop().expect("nothing failed");
}

/// Matching a topic against thousands of filters with wildcards takes as long as hundreds of other publishes, also when nobody gets it:
/// each of these is a turn's work, so that others wait for one of them at a time and not for a whole read.
#[test]
fn publishes_that_are_dear_to_match_are_spread_over_turns() {
    const LEVELS: u32 = 12;
    const PUBLISHES: usize = 200;
    let broker = crate::support::broker(1, &[], |_| {});
    let address = broker.addresses()[0];
    let mut hostile = Client::connect(address, "hostile");
    let filters: Vec<String> = (0..1u32 << LEVELS)
        .map(|bits| {
            let level = |at| if bits >> at & 1 == 1 { "+/" } else { "a/" };
            (0..LEVELS).map(level).chain(["x"]).collect()
        })
        .collect();
    for some in filters.chunks(256) {
        let mut body = vec![0, 1];
        for filter in some {
            body.extend(crate::support::text(filter));
            body.push(0);
        }
        hostile.send(0x82, &body);
        assert_eq!(hostile.receive().first, 0x90, "SUBACK");
    }
    let control = broker.control();
    let turns = || {
        let report = asked(control.report(ShardId(0)));
        report.expect("it runs").counters.turns
    };
    let before = turns();
    let mut bytes = Vec::new();
    for number in 0..PUBLISHES {
        let topic = format!("{}y{number}", "a/".repeat(LEVELS as usize));
        bytes.extend(crate::support::publish(&topic, 0, 0, b""));
    }
    hostile.send_raw(&bytes);
    hostile.send(0xC0, &[]);
    assert_eq!(hostile.receive().first, 0xD0, "all of them are handled");
    let taken = turns() - before;
    // Some 8,000 nodes each: nearly two turns' work.
    assert!(taken >= PUBLISHES as u64, "{taken} turns");
    broker.stop().expect("nothing failed");
}
