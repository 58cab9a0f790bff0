//! Random lives of sessions against a simple oracle: what was acknowledged arrives, in order, QoS 2 once, whatever commits late,
//! whoever leads, and however often connections end; what expires may be missing once its time is over, and not before.

use courser_contract::{DetachCause, Publish, QoS, SharedStrategy, WallMs};
use courser_engine::Limits;
use proptest::prelude::*;

use crate::world::{Acks, Commits, DURABLE, OTHER, Options, Recalling, World, message, to};

const TOPICS: [&str; 3] = ["a/1", "a/2", "other/1"];

#[derive(Clone, Debug)]
enum Step {
    Connect {
        client: usize,
        receive_maximum: u16,
    },
    Detach {
        client: usize,
    },
    Lose {
        client: usize,
    },
    Publish {
        topic: usize,
        qos: u8,
        retain: bool,
        life_ms: Option<u64>,
    },
    Ack {
        client: usize,
        count: usize,
    },
    Churn {
        clean: bool,
    },
    Commit {
        other: bool,
    },
    Turn,
    Depose {
        other: bool,
        kept: usize,
    },
    Restart {
        other: bool,
    },
    Time {
        ms: u64,
    },
    Recall {
        other: bool,
        count: usize,
    },
    Settle,
}

/// Two with subscriptions of their own, two that share one.
fn client() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0usize), Just(1), Just(3), Just(4)]
}

/// Some expire soon, some behind most stories.
fn life_ms() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        3 => Just(None),
        1 => (1..4_000u64).prop_map(Some),
        1 => (4_000..60_000u64).prop_map(Some),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (client(), 1..6u16).prop_map(|(client, receive_maximum)| Step::Connect { client, receive_maximum }),
        1 => client().prop_map(|client| Step::Detach { client }),
        1 => client().prop_map(|client| Step::Lose { client }),
        8 => (0..TOPICS.len(), 0..3u8, prop::bool::weighted(0.2), life_ms())
            .prop_map(|(topic, qos, retain, life_ms)| Step::Publish { topic, qos, retain, life_ms }),
        5 => (client(), 1..4usize).prop_map(|(client, count)| Step::Ack { client, count }),
        1 => any::<bool>().prop_map(|clean| Step::Churn { clean }),
        5 => any::<bool>().prop_map(|other| Step::Commit { other }),
        3 => Just(Step::Turn),
        1 => (any::<bool>(), 0..3usize).prop_map(|(other, kept)| Step::Depose { other, kept }),
        1 => any::<bool>().prop_map(|other| Step::Restart { other }),
        1 => (1..40u64).prop_map(|ms| Step::Time { ms }),
        1 => (200..1_500u64).prop_map(|ms| Step::Time { ms }),
        4 => (any::<bool>(), 1..4usize).prop_map(|(other, count)| Step::Recall { other, count }),
        1 => Just(Step::Settle),
    ]
}

/// One message that was published.
struct Sent {
    ticket: usize,
    topic: &'static str,
    payload: String,
    qos: QoS,
    expires_at: Option<WallMs>,
}

struct Run {
    world: World,
    sent: Vec<Sent>,
    churn: usize,
}

/// The two whose messages are counted: filters overlap, so that merged subscriptions are tried as well.
fn begin(hot_bytes: u64, shared_strategy: SharedStrategy) -> Run {
    let limits = Limits {
        shared_strategy,
        ..Limits::default()
    };
    let mut world = World::with_hot(limits, hot_bytes);
    for name in ["one", "two"] {
        let at = world.client(name);
        world.attach(at, Options::durable());
        world.subscribe(at, to("a/+", QoS::AtLeastOnce));
        world.subscribe(at, to("#", QoS::ExactlyOnce));
        world.clients[at].acks = Acks::Held;
    }
    let churn = world.client("churn");
    for name in ["three", "four"] {
        let at = world.client(name);
        world.attach(at, Options::durable());
        let mut subscription = to("a/+", QoS::ExactlyOnce);
        subscription.share = Some("g".into());
        world.subscribe(at, subscription);
        world.clients[at].acks = Acks::Held;
    }
    world.commits = Commits::Held;
    world.recalling = Recalling::Held;
    Run {
        world,
        sent: Vec::new(),
        churn,
    }
}

impl Run {
    fn step(&mut self, step: &Step) {
        let world = &mut self.world;
        let partition = |other: bool| if other { OTHER } else { DURABLE };
        match *step {
            Step::Connect {
                client,
                receive_maximum,
            } => {
                if world.clients[client].front.is_none() {
                    let options = Options {
                        receive_maximum,
                        ..Options::durable()
                    };
                    world.connect(client, options);
                }
            }
            Step::Detach { client } | Step::Lose { client } => {
                if world.clients[client].home.is_some() {
                    let cause = match step {
                        Step::Detach { .. } => DetachCause::Disconnect,
                        _ => DetachCause::Lost,
                    };
                    for (to, message) in world.clients[client].detach(cause) {
                        world.send_home(to, message);
                    }
                }
            }
            Step::Publish {
                topic,
                qos,
                retain,
                life_ms,
            } => {
                let qos = QoS::from_bits(qos).expect("0 to 2");
                let payload = self.sent.len().to_string();
                let topic = TOPICS[topic];
                let expires_at = life_ms.map(|ms| WallMs(world.now.wall.0 + ms));
                let ticket = world.publish(&Publish {
                    retain,
                    expires_at,
                    ..message(topic, &payload, qos)
                });
                self.sent.push(Sent {
                    ticket,
                    topic,
                    payload,
                    qos,
                    expires_at,
                });
            }
            Step::Ack { client, count } => {
                for (to, message) in world.clients[client].ack(count) {
                    world.send_home(to, message);
                }
            }
            Step::Churn { clean } => self.churn(clean),
            Step::Commit { other } => {
                world.commit_one(partition(other));
                world.turn();
            }
            Step::Turn => world.turn(),
            Step::Depose { other, kept } => {
                world.depose(partition(other), kept);
                world.turn();
                world.elect(partition(other));
                self.serve_again(other);
            }
            Step::Restart { other } => {
                world.restart(partition(other));
                self.serve_again(other);
            }
            Step::Time { ms } => world.pass_time(ms),
            Step::Recall { other, count } => {
                world.recall_some(partition(other), count);
                world.turn();
            }
            Step::Settle => world.settle(),
        }
    }

    /// The first entry of the term commits; then the origin sends again what is unsettled (M14).
    fn serve_again(&mut self, other: bool) {
        let id = if other { OTHER } else { DURABLE };
        self.world.turn();
        while self.world.commit_one(id) {}
        self.world.turn();
        self.world.resend(id);
    }

    /// Somebody comes and goes, and subscribes while there; one bit decides what it does next.
    fn churn(&mut self, clean: bool) {
        let world = &mut self.world;
        let at = self.churn;
        if clean && world.clients[at].home.is_some() {
            let (home, message) = world.clients[at].subscribe(vec![to("a/#", QoS::AtLeastOnce)]);
            world.send_home(home, message);
        } else if world.clients[at].home.is_some() {
            for (to, message) in world.clients[at].detach(DetachCause::Lost) {
                world.send_home(to, message);
            }
        } else if world.clients[at].front.is_none() {
            let options = if clean {
                Options::clean()
            } else {
                Options::durable()
            };
            world.connect(at, options);
        }
    }

    fn finish(mut self) {
        self.world.recalling = Recalling::AtOnce;
        // A fence waits for what is not settled, and that for being sent again to the leader that there is now.
        for other in [false, true] {
            self.serve_again(other);
        }
        let world = &mut self.world;
        world.settle();
        for id in [DURABLE, OTHER] {
            world.resend(id);
        }
        world.settle();
        for client in [0, 1, 3, 4] {
            world.clients[client].acks = Acks::Auto;
            if world.clients[client].home.is_none() {
                world.attach(client, Options::durable());
            }
            let waiting = world.clients[client].waiting.len();
            world.ack(client, waiting);
        }
        world.settle();
        for client in 0..2 {
            self.judge(client);
        }
        self.judge_shared();
        let queued = self.world.nodes[&DURABLE].partition.counts();
        let own = [0, 1].map(|at| self.world.home(at).session);
        assert_ne!(own[0], own[1]);
        if self.world.clients[self.churn].home.is_none() {
            assert!(queued.sessions >= 2);
        }
    }

    /// Somebody has each message; one of QoS 2 one of them, once (v5 [MQTT-4.8.2-4]).
    fn judge_shared(&self) {
        let members = [&self.world.clients[3], &self.world.clients[4]];
        let taken = || members.iter().flat_map(|member| &member.taken);
        let shared = self.sent.iter().filter(|sent| sent.topic.starts_with("a/"));
        for sent in shared.filter(|sent| sent.qos > QoS::AtMostOnce) {
            let times = taken().filter(|got| got.payload == sent.payload).count();
            if times == 0 && self.is_over(sent) {
                continue;
            }
            assert!(times >= 1, "{} has arrived at a member", sent.payload);
            if sent.qos == QoS::ExactlyOnce {
                assert_eq!(times, 1, "{} has arrived at one member, once", sent.payload);
            }
        }
    }

    /// Whether a message may be missing because it has expired.
    fn is_over(&self, sent: &Sent) -> bool {
        let now = self.world.now.wall;
        sent.expires_at.is_some_and(|at| at <= now)
    }

    fn judge(&self, client: usize) {
        let taken = &self.world.clients[client].taken;
        for sent in self.sent.iter().filter(|sent| sent.qos > QoS::AtMostOnce) {
            let times = taken
                .iter()
                .filter(|got| got.payload == sent.payload)
                .count();
            assert!(
                self.world.is_acked(sent.ticket),
                "{} is acknowledged in the end",
                sent.payload
            );
            if times == 0 && self.is_over(sent) {
                continue;
            }
            assert!(times >= 1, "{} has arrived", sent.payload);
            if sent.qos == QoS::ExactlyOnce {
                assert_eq!(times, 1, "{} has arrived once", sent.payload);
            }
        }
        for topic in TOPICS {
            for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
                let mut first: Vec<u32> = Vec::new();
                for got in taken
                    .iter()
                    .filter(|got| got.topic == topic && got.qos == qos)
                {
                    let number = got.payload.parse().expect("payloads are numbers");
                    if !first.contains(&number) {
                        first.push(number);
                    }
                }
                assert!(first.is_sorted(), "{topic} in order: {first:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever is in memory (M17). v3 [MQTT-4.6.0-6], v5 [MQTT-4.6.0-5]: order; v3 [MQTT-4.3.3-1], v5 [MQTT-4.3.3-1]: once; M4, M5, M9, M14, M30, M32.
    #[test]
    fn what_is_acknowledged_arrives_in_order_and_qos2_once(
        hot_bytes in prop_oneof![Just(0), Just(300), Just(u64::MAX)],
        strategy in prop_oneof![
            Just(SharedStrategy::RoundRobin),
            Just(SharedStrategy::Sticky),
            Just(SharedStrategy::HashTopic),
            Just(SharedStrategy::LeastOutstanding),
        ],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut run = begin(hot_bytes, strategy);
        for step in &steps {
            run.step(step);
        }
        run.finish();
    }
}
