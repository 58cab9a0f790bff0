//! What the oracle makes of things that hardly any world shows.

use super::*;

const FILTER: &str = "t/0";

fn oracle() -> (Oracle, LifeId, LifeId) {
    let mut oracle = Oracle::new(&Plan::new(1));
    let (publisher, receiver) = (oracle.begin_life(0), oracle.begin_life(1));
    (oracle, publisher, receiver)
}

fn subscribe(oracle: &mut Oracle, life: LifeId, now: u64) {
    let sub = Sub {
        qos: QoS::AtLeastOnce,
        no_local: false,
        retain_as_published: false,
        since: None,
        gone: None,
        scans: 0,
    };
    let options = SubscriptionOptions {
        qos: QoS::AtLeastOnce,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::DoNotSend,
    };
    oracle.subscribing(life, FILTER, sub, now);
    oracle.subscribed(life, FILTER, options, now);
}

fn publish(oracle: &mut Oracle, life: LifeId, now: u64) -> Got {
    let msg = Msg {
        client: oracle.lives[life].client,
        life: Some(life),
        topic: FILTER.to_owned(),
        payload: Vec::new(),
        qos: QoS::AtLeastOnce,
        retain: false,
        first_sent: now,
        acked: None,
        refused: false,
        copies: 1,
        resent: false,
        abandoned: false,
        strayed: false,
    };
    let (_, payload) = oracle.publish(msg, 8);
    Got {
        topic: FILTER.to_owned(),
        payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        dup: false,
        repeat: false,
    }
}

/// A clean start whose answer was lost began the session anew: what was subscribed before it is gone, and the first copy of a message with
/// it, which comes with its repeat (v3 [MQTT-3.1.2-6], v5 [MQTT-3.1.2-4]).
#[test]
fn i3_a_clean_start_that_was_not_answered_may_have_taken_the_first_copy() {
    for may_be_new in [false, true] {
        let (mut oracle, publisher, receiver) = oracle();
        subscribe(&mut oracle, receiver, 10);
        let first = publish(&mut oracle, publisher, 20);
        let second = publish(&mut oracle, publisher, 30);
        if may_be_new {
            let life = &mut oracle.lives[receiver];
            life.fuzzy = true;
            life.close_spans(40);
        }
        oracle.got(receiver, &second, 50);
        oracle.resent(id(&first));
        oracle.got(receiver, &first, 60);
        let broken = oracle.violation.is_some_and(|text| text.starts_with("I3:"));
        assert_eq!(broken, !may_be_new);
    }
}

fn id(got: &Got) -> MsgId {
    deliveries::id_of(&got.payload).expect("payloads begin with it")
}
