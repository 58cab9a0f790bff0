//! I11 on a running broker: for a dozen random tables, what each path lets through is what a naive evaluator says: publish, subscribe,
//! delivery, retained messages, replay after a reconnect, shared subscriptions also of members that lose their rights, wills; publish and
//! delivery by both versions and all QoS.

#[allow(unreachable_pub, reason = "tests of the rules use it too")]
#[path = "../../../access/tests/naive/mod.rs"]
mod naive;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::accounts::{
    ACCOUNTS, Hello, change, delivered, delivery, publishes, put_role, put_user, role, role_name,
    subscribe,
};
use crate::support::{Client, broker_on, text};
use courser_access::Command;
use courser_broker::Broker;
use naive::{Rule, Who, Wish};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const TABLES: usize = 12;
/// How long it is waited for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
/// No random rule speaks of it, since wildcards at the beginning do not match it: what comes last is always let through.
const LAST: &str = "$last/one";
const TOPICS: [&str; 8] = ["a", "a/b", "c1/b", "anna/x", "anna", "x/c1", "a/b/c", "z"];
const FILTERS: [&str; 9] = [
    "#", "+", "a/#", "a/+", "+/b", "c1/#", "anna/+", "a/b", "+/+/#",
];
/// For filters: as many levels as patterns and filters have, and one more.
const LEVELS: [&str; 7] = ["a", "b", "c", "c1", "x", "anna", "$last"];
const NOT_AUTHORIZED: u8 = 0x87;
const KEEPS: &[u8] = &[17, 0, 0, 1, 0];

fn rule() -> impl Strategy<Value = Rule> {
    let patterns = [
        "#", "+", "a/#", "a/+", "+/b", "%c/b", "%c/#", "%u/#", "%u/+", "+/%c", "+/+", "a/b",
        "+/+/c", "a", "z", "x/%u",
    ];
    let parts = (
        prop::bool::weighted(0.7),
        prop::sample::select(&["publish", "subscribe", "all"][..]),
        prop::sample::select(patterns.to_vec()),
    );
    parts.prop_map(|(allows, action, pattern)| Rule {
        allows,
        action,
        pattern: pattern.to_owned(),
    })
}

/// The broker, who may do all there, and of whom the tables are.
struct World {
    broker: Broker,
    address: SocketAddr,
    root: Client,
    topics: Vec<String>,
}

/// What is delivered: topic and payload.
type Found = Vec<(String, String)>;

impl World {
    fn new(broker: Broker) -> Self {
        let address = broker.addresses()[0];
        put_role(&broker, "everything", &["allow all #", "allow all $last/#"]);
        put_user(&broker, "root", "root", &["everything"]);
        for role in ["first", "second"] {
            put_role(&broker, role, &[]);
        }
        put_role(&broker, "last", &["allow subscribe $last/#"]);
        put_user(&broker, "anna", "secret", &["first", "second", "last"]);
        let root = Hello {
            client_id: "root",
            login: Some(("root", "root")),
            ..Hello::default()
        };
        let mut root = root.accepted(address);
        for topic in TOPICS {
            assert_eq!(publishes(&mut root, topic, true, "kept"), 0);
        }
        Self {
            broker,
            address,
            root,
            topics: naive::world(&LEVELS, 4),
        }
    }

    /// Gives anna these rules, in two roles, in one change.
    fn set(&self, first: &[Rule], second: &[Rule]) {
        for (name, rules) in [("first", first), ("second", second)] {
            let rules: Vec<String> = rules.iter().map(Rule::text).collect();
            let rules: Vec<&str> = rules.iter().map(|rule| &**rule).collect();
            change(
                &self.broker,
                Command::PutRole(role_name(name), role(&rules)),
            );
        }
    }

    fn all(&self) {
        put_role(&self.broker, "first", &["allow all #"]);
        put_role(&self.broker, "second", &[]);
    }

    /// Publishes to every topic, and then what comes last.
    fn publish_all(&mut self, payload: &str) {
        for topic in TOPICS {
            publishes(&mut self.root, topic, false, payload);
        }
        publishes(&mut self.root, LAST, false, payload);
    }

    /// A client of anna that keeps its session.
    fn kept(&self, client_id: &str) -> Client {
        let hello = Hello {
            client_id,
            flags: 0,
            properties: KEEPS,
            ..Hello::default()
        };
        hello.accepted(self.address)
    }
}

/// What comes until the one that is last, and is told by the publisher of all others.
fn until_last(client: &mut Client, payload: &str) -> Found {
    let mut found = Found::new();
    loop {
        let one = delivered(client);
        if one == (LAST.to_owned(), payload.to_owned()) {
            return found;
        }
        found.push(one);
    }
}

/// The topics that fit, in order, each with this payload.
fn expected(payload: &str, fits: impl Fn(&str) -> bool) -> Found {
    let topics = TOPICS.iter().filter(|topic| fits(topic));
    topics
        .map(|topic| ((*topic).to_owned(), payload.to_owned()))
        .collect()
}

fn sorted(mut found: Found) -> Found {
    found.sort();
    found
}

/// The client ids of one table: patterns name `c1`, so that has them in turn.
const CLIENT: &str = "c1";

/// Deliveries of subscriptions that were made when everything was allowed: live, and those that waited.
fn check_delivery(world: &mut World, who: &Who, set: impl Fn(&World)) {
    world.all();
    let mut client = world.kept(CLIENT);
    for filter in ["#", "$last/#"] {
        assert_eq!(subscribe(&mut client, filter), 1);
        let kept = if filter == "#" { TOPICS.len() } else { 0 };
        let found: Found = (0..kept).map(|_| delivered(&mut client)).collect();
        assert_eq!(sorted(found), sorted(expected("kept", |_| kept > 0)));
    }
    world.publish_all("before");
    assert_eq!(
        until_last(&mut client, "before"),
        expected("before", |_| true)
    );
    client.send(0xE0, &[]);
    assert!(client.is_closed());
    world.publish_all("waits");
    set(world);
    world.publish_all("waits too");
    let receives = |topic: &str| who.may(Wish::Receive, topic);
    let mut client = world.kept(CLIENT);
    for payload in ["waits", "waits too"] {
        assert_eq!(
            until_last(&mut client, payload),
            expected(payload, receives),
            "replay"
        );
    }
    world.publish_all("live");
    assert_eq!(
        until_last(&mut client, "live"),
        expected("live", receives),
        "live"
    );
    let hello = Hello {
        client_id: CLIENT,
        ..Hello::default()
    };
    // The session ends by a clean start.
    drop(hello.accepted(world.address));
}

/// Publishes of each topic, and what comes of them.
fn check_publish(world: &mut World, who: &Who) {
    let hello = Hello {
        client_id: "watcher",
        login: Some(("root", "root")),
        ..Hello::default()
    };
    let mut watcher = hello.accepted(world.address);
    assert_eq!(subscribe(&mut watcher, "+/#"), 1);
    let kept: Found = TOPICS.iter().map(|_| delivered(&mut watcher)).collect();
    assert_eq!(sorted(kept), sorted(expected("kept", |_| true)));
    let hello = Hello {
        client_id: CLIENT,
        ..Hello::default()
    };
    let mut client = hello.accepted(world.address);
    let allowed = expected("published", |topic| who.may(Wish::Publish, topic));
    for topic in TOPICS {
        let code = publishes(&mut client, topic, false, "published");
        assert_eq!(
            code == NOT_AUTHORIZED,
            !who.may(Wish::Publish, topic),
            "publish {topic}: {code:#x}"
        );
    }
    for one in &allowed {
        assert_eq!(&delivered(&mut watcher), one, "published");
    }
    check_wills(world, who, &mut watcher);
}

/// A will of each topic, and what comes of it when the connection breaks.
fn check_wills(world: &mut World, who: &Who, watcher: &mut Client) {
    for topic in TOPICS {
        let mut will = vec![0];
        will.extend(text(topic));
        will.extend(text("will"));
        let hello = Hello {
            client_id: CLIENT,
            // With a will of QoS 1.
            flags: 2 | 4 | 8,
            will: &will,
            ..Hello::default()
        };
        let (client, answer) = hello.say(world.address);
        let allowed = who.may(Wish::Publish, topic);
        assert_eq!(
            answer.body[1],
            if allowed { 0 } else { NOT_AUTHORIZED },
            "will {topic}"
        );
        drop(client);
        if allowed {
            assert_eq!(delivered(watcher), (topic.to_owned(), "will".to_owned()));
        }
    }
    // Nothing else has come: not what was refused, and nothing twice.
    publishes(&mut world.root, "after/wills", false, "end");
    assert_eq!(
        delivered(watcher),
        ("after/wills".to_owned(), "end".to_owned())
    );
}

/// Subscriptions of every filter, alone and shared, with the retained messages and the live ones of those that are let in.
fn check_subscribe(world: &mut World, who: &Who, table: usize) {
    let hello = Hello {
        client_id: CLIENT,
        ..Hello::default()
    };
    let receives =
        |filter: &str, topic: &str| naive::matches(filter, topic) && who.may(Wish::Receive, topic);
    let mut client = hello.accepted(world.address);
    assert_eq!(subscribe(&mut client, "$last/#"), 1);
    let mut mine = Vec::new();
    for filter in FILTERS {
        let allowed = who.may_subscribe(filter, false, &world.topics);
        let code = subscribe(&mut client, filter);
        assert_eq!(
            code,
            if allowed { 1 } else { NOT_AUTHORIZED },
            "subscribe {filter}"
        );
        if allowed {
            mine.push(filter);
            let retained = expected("kept", |topic| receives(filter, topic));
            let found: Found = retained.iter().map(|_| delivered(&mut client)).collect();
            assert_eq!(sorted(found), sorted(retained), "retained of {filter}");
        }
    }
    world.publish_all("mine");
    let any = |topic: &str| mine.iter().any(|filter| receives(filter, topic));
    assert_eq!(
        until_last(&mut client, "mine"),
        expected("mine", any),
        "live of {mine:?}"
    );
    let mut client = hello.accepted(world.address);
    let mut groups: Vec<&str> = Vec::new();
    for (number, filter) in FILTERS.iter().enumerate() {
        let allowed = who.may_subscribe(filter, true, &world.topics);
        let code = subscribe(&mut client, &format!("$share/g{table}-{number}/{filter}"));
        assert_eq!(
            code,
            if allowed { 1 } else { NOT_AUTHORIZED },
            "share {filter}"
        );
        if allowed {
            groups.push(filter);
        }
    }
    // Twice: what came too often the first time is in the way of the second one.
    for payload in ["shared", "shared again"] {
        world.publish_all(payload);
        let of_group = |filter| expected(payload, |topic| receives(filter, topic));
        let all: Found = groups.iter().flat_map(|filter| of_group(filter)).collect();
        let found: Found = all.iter().map(|_| delivered(&mut client)).collect();
        assert_eq!(sorted(found), sorted(all), "of groups");
    }
}

/// How long it is looked for a packet of one of two clients before it is the other's turn.
const GLANCE: Duration = Duration::from_millis(10);

/// Members of groups that joined when everything was allowed, and whose rights are others since. What one may not have goes to another
/// member, and it is disconnected. With sessions that are kept the group is durable, otherwise it is not.
fn check_members(world: &mut World, who: &Who, table: usize, set: impl Fn(&World)) {
    world.all();
    let hello = Hello {
        client_id: "other",
        login: Some(("root", "root")),
        ..Hello::default()
    };
    let mut other = hello.accepted(world.address);
    let hello = Hello {
        client_id: CLIENT,
        ..Hello::default()
    };
    let kept = table % 2 == 1;
    let mut client = if kept {
        world.kept(CLIENT)
    } else {
        hello.accepted(world.address)
    };
    let group = format!("$share/m{table}/+/#");
    assert_eq!(subscribe(&mut other, &group), 1);
    assert_eq!(subscribe(&mut client, &group), 1);
    set(world);
    // Twice, so that both are offered something.
    let mut left = Found::new();
    for payload in ["one", "two"] {
        world.publish_all(payload);
        left.extend(expected(payload, |_| true));
    }
    let receives = |topic: &str| who.may(Wish::Receive, topic);
    let mut is_there = true;
    let began = Instant::now();
    while !left.is_empty() {
        assert!(began.elapsed() < PATIENCE, "nobody got {left:?}");
        if let Some(packet) = client.receive_within(GLANCE).filter(|_| is_there) {
            is_there = packet.first != 0xE0;
            if is_there {
                let one = delivery(&mut client, &packet);
                assert!(receives(&one.0), "a member got {one:?}");
                left.retain(|it| *it != one);
            } else {
                assert_eq!(packet.body[0], NOT_AUTHORIZED);
            }
        }
        // What the first one had not acknowledged comes again.
        if let Some(packet) = other.receive_within(GLANCE) {
            let one = delivery(&mut other, &packet);
            left.retain(|it| *it != one);
        }
    }
    let all = TOPICS.iter().all(|topic| receives(topic));
    assert!(is_there || !all, "a member that may have all of it stays");
    drop(client);
    drop(hello.accepted(world.address));
    check_lone_member(world, who, table, set);
}

/// A member alone gets what it may have, and is disconnected by what it may not.
fn check_lone_member(world: &mut World, who: &Who, table: usize, set: impl Fn(&World)) {
    for topic in TOPICS {
        world.all();
        let hello = Hello {
            client_id: CLIENT,
            ..Hello::default()
        };
        let mut client = hello.accepted(world.address);
        assert_eq!(
            subscribe(&mut client, &format!("$share/l{table}/{topic}")),
            1
        );
        set(world);
        publishes(&mut world.root, topic, false, "alone");
        if who.may(Wish::Receive, topic) {
            let one = delivered(&mut client);
            assert_eq!(one, (topic.to_owned(), "alone".to_owned()));
        } else {
            let packet = client.receive();
            assert_eq!(
                (packet.first, packet.body[0]),
                (0xE0, NOT_AUTHORIZED),
                "{topic}"
            );
            assert!(client.is_closed());
        }
    }
}
/// How something is published, or subscribed to: another version has other answers, another QoS other paths.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// 4 is 3.1.1.
    version: u8,
    qos: u8,
}

const WAYS: [Way; 6] = [
    Way { version: 4, qos: 0 },
    Way { version: 4, qos: 1 },
    Way { version: 4, qos: 2 },
    Way { version: 5, qos: 0 },
    Way { version: 5, qos: 1 },
    Way { version: 5, qos: 2 },
];

impl Way {
    fn connect(self, world: &World, client_id: &str, login: (&str, &str)) -> Client {
        let hello = Hello {
            version: self.version,
            client_id,
            login: Some(login),
            ..Hello::default()
        };
        hello.accepted(world.address)
    }

    /// Where 5.0 has properties there are none.
    fn no_properties(self) -> &'static [u8] {
        if self.version == 5 { &[0] } else { &[] }
    }

    /// Publishes and waits until the broker has taken it, or refused it: by the code of PUBACK or PUBREC, or by the end of the connection. Of QoS 0
    /// it says neither.
    fn publish(self, client: &mut Client, topic: &str, payload: &str) -> bool {
        const PACKET_ID: [u8; 2] = [0, 9];
        let mut body = text(topic);
        if self.qos > 0 {
            body.extend(PACKET_ID);
        }
        body.extend_from_slice(self.no_properties());
        body.extend_from_slice(payload.as_bytes());
        client.send(0x30 | self.qos << 1, &body);
        if self.qos == 0 {
            return true;
        }
        let Some(answer) = client.receive_within(PATIENCE) else {
            return false;
        };
        let code = answer.body.get(2).copied().unwrap_or(0);
        assert_eq!(answer.first, [0x40, 0x50][usize::from(self.qos) - 1]);
        if self.qos == 2 && code < 0x80 {
            client.send(0x62, &PACKET_ID);
            assert_eq!(client.receive().first, 0x70);
        }
        assert!(code < 0x80 || code == NOT_AUTHORIZED, "{topic}: {code:#x}");
        code < 0x80
    }

    fn subscribe(self, client: &mut Client, filter: &str) {
        let mut body = vec![0, 1];
        body.extend_from_slice(self.no_properties());
        body.extend(text(filter));
        body.push(self.qos);
        client.send(0x82, &body);
        let suback = client.receive();
        assert_eq!(
            (suback.first, suback.body.last()),
            (0x90, Some(&self.qos)),
            "{filter}"
        );
    }

    /// Topic and payload of the next delivery; acknowledged, as those of QoS 2 before it are.
    fn delivered(self, client: &mut Client) -> (String, String) {
        let (topic, mut payload) = client.receive_publish();
        if self.version == 5 {
            let properties = usize::from(payload[0]);
            payload.drain(..=properties);
        }
        (topic, String::from_utf8(payload).expect("text"))
    }
}

/// Publishes in every way, and what comes of them. Where it cannot be said that one of QoS 1 or 2 was refused, the connection ends.
fn check_ways_to_publish(world: &mut World, who: &Who) {
    let hello = Hello {
        client_id: "watcher",
        login: Some(("root", "root")),
        ..Hello::default()
    };
    let mut watcher = hello.accepted(world.address);
    let watched = Way { version: 5, qos: 1 };
    // A shared subscription gets nothing that is retained.
    assert_eq!(subscribe(&mut watcher, "$share/ways/+/#"), 1);
    for way in WAYS {
        let mut client = way.connect(world, CLIENT, ("anna", "secret"));
        for topic in TOPICS {
            let payload = format!("{way:?}");
            let allowed = who.may(Wish::Publish, topic);
            let taken = way.publish(&mut client, topic, &payload);
            assert!(taken == allowed || way.qos == 0, "{way:?} {topic}: {taken}");
            if allowed {
                let one = watched.delivered(&mut watcher);
                assert_eq!(one, (topic.to_owned(), payload), "{way:?}");
            } else if way.version == 4 && way.qos > 0 {
                assert!(client.is_closed(), "{way:?} {topic}");
                client = way.connect(world, CLIENT, ("anna", "secret"));
            }
        }
    }
    publishes(&mut world.root, "after/ways", false, "end");
    assert_eq!(
        watched.delivered(&mut watcher),
        ("after/ways".to_owned(), "end".to_owned()),
        "nothing else has come"
    );
}

/// Deliveries in one way, of a subscription that was made when everything was allowed: what is retained then, and what comes since.
fn check_way_of_delivery(world: &World, who: &Who, way: Way, set: impl Fn(&World)) {
    world.all();
    let mut client = way.connect(world, CLIENT, ("anna", "secret"));
    for filter in ["$last/#", "#"] {
        way.subscribe(&mut client, filter);
    }
    let kept: Found = TOPICS.iter().map(|_| way.delivered(&mut client)).collect();
    assert_eq!(sorted(kept), sorted(expected("kept", |_| true)), "{way:?}");
    set(world);
    let mut publisher = way.connect(world, "publisher", ("root", "root"));
    let receives = |topic: &str| who.may(Wish::Receive, topic);
    for topic in TOPICS.into_iter().chain([LAST]) {
        assert!(way.publish(&mut publisher, topic, "by way"));
    }
    let mut found = Found::new();
    loop {
        let one = way.delivered(&mut client);
        if one.0 == LAST {
            break;
        }
        found.push(one);
    }
    assert_eq!(found, expected("by way", receives), "{way:?}");
}

#[test]
#[allow(clippy::print_stdout, reason = "a failure names its table")]
fn i11_every_path_lets_through_what_a_naive_evaluator_says() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let mut world = World::new(broker_on(folder.path(), 2, &[ACCOUNTS]));
    // The same tables in every run.
    let mut runner = TestRunner::deterministic();
    let tables = prop::collection::vec(rule(), 0..5);
    for number in 0..TABLES {
        let mut draw = || tables.new_tree(&mut runner).expect("a table").current();
        let (first, second) = (draw(), draw());
        println!("table {number}: {first:?} {second:?}");
        let who = Who {
            client_id: CLIENT.to_owned(),
            user: "anna".to_owned(),
            rules: [first.clone(), second.clone()].concat(),
        };
        check_delivery(&mut world, &who, |world| world.set(&first, &second));
        check_publish(&mut world, &who);
        check_ways_to_publish(&mut world, &who);
        check_subscribe(&mut world, &who, number);
        check_members(&mut world, &who, number, |world| world.set(&first, &second));
        let way = WAYS[number % WAYS.len()];
        check_way_of_delivery(&world, &who, way, |world| world.set(&first, &second));
    }
    world.broker.stop().expect("nothing failed");
}
