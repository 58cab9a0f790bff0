//! What the oracle makes of things that hardly any world shows.

use courser_contract::CloseCause;

use super::short::ARRIVAL_MS;
use super::*;

const TOPIC: &str = "r/0";
const ONCE_OR_MORE: (QoS, bool) = (QoS::AtLeastOnce, false);

const LEFT_AT_ONCE: LeftWill = LeftWill {
    msg: 1,
    delay_ms: 0,
    is_stored: true,
};

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
    oracle.subscribing(life, TOPIC, sub, now);
    oracle.subscribed(life, TOPIC, options, now);
}

fn publish(oracle: &mut Oracle, life: LifeId, (qos, retain): (QoS, bool), now: u64) -> Got {
    let msg = Msg {
        client: oracle.lives[life].client,
        life: Some(life),
        topic: TOPIC.to_owned(),
        payload: Vec::new(),
        qos,
        retain,
        life_seconds: None,
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
        topic: TOPIC.to_owned(),
        payload,
        qos: qos.min(QoS::AtLeastOnce),
        retain: false,
        dup: false,
        repeat: false,
    }
}

fn id(got: &Got) -> MsgId {
    deliveries::id_of(&got.payload).expect("payloads begin with it")
}

/// A clean start whose answer was lost began the session anew: what was subscribed before it is gone, and the first copy of a message with
/// it, which comes with its repeat (v3 [MQTT-3.1.2-6], v5 [MQTT-3.1.2-4]).
#[test]
fn i3_a_clean_start_that_was_not_answered_may_have_taken_the_first_copy() {
    for may_be_new in [false, true] {
        let (mut oracle, publisher, receiver) = oracle();
        subscribe(&mut oracle, receiver, 10);
        let first = publish(&mut oracle, publisher, ONCE_OR_MORE, 20);
        let second = publish(&mut oracle, publisher, ONCE_OR_MORE, 30);
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

/// A volatile session ends with its process, and the answer that says so was lost: the next connection finds a session, publishes to it again
/// what the lost one had passed on, and nobody knows that it is the same (M1, M28).
#[test]
fn i4_what_is_sent_again_to_a_stranger_comes_again() {
    for strayed in [false, true] {
        let (mut oracle, publisher, receiver) = oracle();
        subscribe(&mut oracle, receiver, 10);
        let got = publish(&mut oracle, publisher, (QoS::ExactlyOnce, false), 20);
        oracle.got(receiver, &got, 30);
        if strayed {
            oracle.strayed(id(&got));
        }
        oracle.resent(id(&got));
        // Its second copy is a delivery of its own, with a packet id of its own (M30).
        assert_eq!(oracle.comes_again(id(&got)), strayed);
        oracle.got(receiver, &got, 40);
        let broken = oracle.violation.is_some_and(|text| text.starts_with("I4:"));
        assert_eq!(broken, !strayed);
    }
}

/// The first copy of a message was too old, one that was published after it was not yet, and the repeat came behind that (M20).
#[test]
fn i3_a_repeat_of_what_was_too_old_comes_late() {
    for (again, may_be) in [(60, false), (119, false), (120, true)] {
        let (mut oracle, publisher, receiver) = oracle();
        oracle.wait_ms = Some(100);
        subscribe(&mut oracle, receiver, 10);
        let first = publish(&mut oracle, publisher, ONCE_OR_MORE, 20);
        let second = publish(&mut oracle, publisher, ONCE_OR_MORE, 30);
        oracle.got(receiver, &second, 40);
        oracle.resent(id(&first));
        oracle.got(receiver, &first, again);
        assert_eq!(oracle.violation.is_none(), may_be, "at {again}");
        assert_eq!(oracle.uses.of(Excuse::DroppedBefore) > 0, may_be);
    }
}

/// Where sessions refuse what they have no room for, a message can be missing only if it has become too old, and only if that was counted (M12, M20).
#[test]
fn i1_where_sessions_refuse_what_is_too_old_may_be_gone() {
    for (wait_ms, life_seconds, dropped, is_lawful) in [
        (None, None, 0, false),
        (None, None, 1, false),
        (Some(1_000), None, 0, false),
        (Some(1_000), None, 1, true),
        (None, Some(1), 0, false),
        (None, Some(1), 1, true),
    ] {
        let (mut oracle, publisher, receiver) = oracle();
        oracle.keeps_all = true;
        oracle.wait_ms = wait_ms;
        subscribe(&mut oracle, receiver, 10);
        let first = publish(&mut oracle, publisher, ONCE_OR_MORE, 20);
        let msg = oracle.msgs.get_mut(&id(&first));
        msg.expect("it was published").life_seconds = life_seconds;
        oracle.answered(id(&first), false, 30);
        oracle.recount(20_000, dropped);
        let broken = oracle.violation;
        assert_eq!(broken.is_none(), is_lawful, "{broken:?}");
    }
}

/// One partition is set aside and refuses, which ends the exchange; others have stored the message, and do so again with each repeat, until its
/// publisher hears of a refusal (v5 [MQTT-4.3.3-9]).
#[test]
fn i4_what_one_partition_has_refused_comes_again_from_the_others() {
    for refuses in [false, true] {
        let (mut oracle, publisher, receiver) = oracle();
        subscribe(&mut oracle, receiver, 10);
        if refuses {
            oracle.disk_short(true, 5);
        }
        let got = publish(&mut oracle, publisher, (QoS::ExactlyOnce, false), 20);
        oracle.got(receiver, &got, 30);
        for again in [40, 50] {
            oracle.resent(id(&got));
            oracle.got(receiver, &got, again);
        }
        assert_eq!(oracle.violation.is_none(), refuses);
        oracle.violation = None;
        oracle.got(receiver, &got, 60);
        assert!(oracle.violation.is_some(), "once for each that was sent");
    }
}

/// A retained message was stored, its answer lost with the process, and its repeat refused by a full disk: it stays (M47).
#[test]
fn m33_what_is_refused_the_second_time_may_be_stored() {
    for resent in [false, true] {
        let (mut oracle, publisher, _) = oracle();
        let got = publish(&mut oracle, publisher, (QoS::AtLeastOnce, true), 20);
        if resent {
            oracle.resent(id(&got));
        }
        oracle.answered(id(&got), true, 30);
        let found = BTreeMap::from([(TOPIC.to_owned(), vec![got.payload.clone()])]);
        oracle.check_retained(&found);
        let broken = oracle
            .violation
            .is_some_and(|text| text.starts_with("M33:"));
        assert_eq!(broken, !resent);
    }
}

/// A message was refused in one partition, where the disk had only its reserve, and is kept in another one, which heard first that it has more (M10, M14).
#[test]
fn m33_what_is_refused_while_room_comes_back_may_be_kept() {
    for (again, may_be) in [(30, true), (30 + ARRIVAL_MS, false)] {
        let (mut oracle, publisher, _) = oracle();
        oracle.disk_short(true, 5);
        let got = publish(&mut oracle, publisher, (QoS::AtLeastOnce, true), 20);
        oracle.answered(id(&got), true, 25);
        oracle.disk_short(false, again);
        let found = BTreeMap::from([(TOPIC.to_owned(), vec![got.payload.clone()])]);
        oracle.check_retained(&found);
        assert_eq!(oracle.violation.is_none(), may_be);
    }
}

/// A message of QoS 2 goes by its publisher's home and does not wait for one of QoS 0, of which nobody says that it has come: either may be kept.
/// A later one is.
#[test]
fn m33_a_message_of_qos_0_may_come_behind_one_of_qos_2() {
    for (sent, may_stay) in [(21, true), (20 + ARRIVAL_MS, false)] {
        let (mut oracle, publisher, _) = oracle();
        let first = publish(&mut oracle, publisher, (QoS::AtMostOnce, true), 20);
        let second = publish(&mut oracle, publisher, (QoS::ExactlyOnce, true), sent);
        oracle.answered(id(&second), false, sent + 10);
        oracle.check_retained(&BTreeMap::from([(TOPIC.to_owned(), vec![first.payload])]));
        assert_eq!(oracle.violation.is_none(), may_stay);
    }
}

/// A new subscription finds `kept` behind a newer message that came live.
fn finds(oracle: &mut Oracle, receiver: LifeId, live: &Got, kept: Got) -> bool {
    oracle.got(receiver, live, 50);
    oracle.got(
        receiver,
        &Got {
            retain: true,
            ..kept
        },
        60,
    );
    oracle.violation.is_none()
}

/// A retained message of QoS 2 that waits in an outbox comes through after the session of its publisher has ended, behind what the next one
/// publishes (M19). In one session it does not (M28), and neither does one that was answered.
#[test]
fn m34_what_outlives_its_session_may_be_kept_behind_newer_messages() {
    for (another, answered) in [(false, false), (true, false), (true, true)] {
        let (mut oracle, publisher, receiver) = oracle();
        subscribe(&mut oracle, receiver, 10);
        let kept = publish(&mut oracle, publisher, (QoS::ExactlyOnce, true), 20);
        if answered {
            oracle.answered(id(&kept), false, 25);
        }
        let next = match another {
            true => oracle.begin_life(0),
            false => publisher,
        };
        let live = publish(&mut oracle, next, (QoS::AtLeastOnce, true), 30);
        oracle.answered(id(&live), false, 40);
        let may_be = finds(&mut oracle, receiver, &live, kept);
        assert_eq!(may_be, another && !answered);
    }
}

/// A client says good-bye at 100, and the process dies at 2,000: its home has long heard of that, unless the log had no room for anything until
/// shortly before (M9, M47).
#[test]
fn m26_a_good_bye_that_the_log_had_no_room_for_is_forgotten() {
    let forgets = |stood: &[(bool, u64)]| {
        let (mut oracle, ..) = oracle();
        oracle.connecting(0, 0, true, Some(LEFT_AT_ONCE));
        oracle.attached(0, 0, 10);
        oracle.closed(0, 0, CloseCause::Disconnect, 100);
        for &(stands, at) in stood {
            oracle.log_stands(stands, at);
        }
        oracle.killed(2_000);
        oracle.judge_will(1, 2_100).is_ok()
    };
    assert!(!forgets(&[]));
    assert!(forgets(&[(true, 90)]));
    assert!(forgets(&[(true, 500)]), "it was on its way");
    assert!(forgets(&[(true, 90), (false, 1_900)]), "what has gathered");
    assert!(!forgets(&[(true, 700)]), "it was in the log by then");
    assert!(!forgets(&[(true, 90), (false, 1_400)]), "it has gone on");
}

/// A full disk refuses a message where it would be kept, and its publisher has not heard so (v3 has no way to say it). A subscriber elsewhere
/// has it all the same: nothing is atomic across partitions (M10, M47).
#[test]
fn m34_what_came_live_may_be_refused_where_it_would_be_kept() {
    for (short, answered) in [(false, false), (true, false), (true, true)] {
        let (mut oracle, publisher, receiver) = oracle();
        subscribe(&mut oracle, receiver, 10);
        let kept = publish(&mut oracle, publisher, (QoS::AtLeastOnce, true), 20);
        oracle.answered(id(&kept), false, 25);
        oracle.disk_short(short, 28);
        let live = publish(&mut oracle, publisher, (QoS::AtLeastOnce, true), 30);
        if answered {
            oracle.answered(id(&live), false, 40);
        }
        let may_be = finds(&mut oracle, receiver, &live, kept);
        assert_eq!(may_be, short && !answered);
    }
}

/// A will of a session that a log has is owed to who stays subscribed, whatever the process does: by a connection that was up when it died, once
/// it has come up again, unless its client was back within its delay. One of a session that ends with its connection is lost (M26).
#[test]
fn m26_a_stored_will_outlives_its_process() {
    let owed = |left: LeftWill, back: Option<u64>| {
        let (mut oracle, _, receiver) = oracle();
        subscribe(&mut oracle, receiver, 10);
        let will = publish(&mut oracle, 0, ONCE_OR_MORE, 20);
        oracle.msgs.get_mut(&id(&will)).expect("it is known").life = None;
        let left = LeftWill {
            msg: id(&will),
            ..left
        };
        oracle.connecting(0, 0, false, Some(left));
        oracle.attached(0, 0, 30);
        oracle.killed(2_000);
        if let Some(back) = back {
            oracle.connecting(1, 0, false, None);
            oracle.attached(1, 0, back);
        }
        oracle.heals(5_000);
        oracle.recount(60_000, 0);
        oracle.violation.is_some()
    };
    let delayed = LeftWill {
        delay_ms: 3_000,
        ..LEFT_AT_ONCE
    };
    let fleeting = LeftWill {
        is_stored: false,
        ..LEFT_AT_ONCE
    };
    assert!(owed(LEFT_AT_ONCE, None));
    assert!(owed(LEFT_AT_ONCE, Some(2_100)), "it is due at the start");
    assert!(owed(delayed, None));
    assert!(!owed(delayed, Some(4_000)), "it came back in time");
    assert!(!owed(delayed, Some(5_500)), "it may have");
    assert!(!owed(fleeting, None));
}
