//! Messages that are gathered for many fronts: the same bytes as one by one, and only for whom it may be done.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use courser_contract::{DeliverFlags, DeliverTo, Delivery, QoS, RecordView, WallMs};

use super::support::{Client, Hello, V5, V311, to_front, view};
use crate::codec::Property;
use crate::front::{
    Packed, Prepared, PreparedScratch, Run, RunBlocks, SHARED_PAYLOAD_BYTES_MIN, Socket,
};

/// Begins a run for a client alone.
fn begun(client: &Client, to: &DeliverTo) -> Option<Run> {
    let mut run = Run::default();
    run.begin(&client.front, to).then_some(run)
}

/// Asks whether a message fits, and appends it then.
fn gather(run: &mut Run, client: &Client, view: RecordView<'_>) -> bool {
    let mut scratch = PreparedScratch::default();
    let delivery = Delivery {
        view: &view,
        record: None,
    };
    let prepared = Prepared::new(&delivery, client.now, &mut scratch);
    let fits = run.fits(&prepared);
    if fits {
        run.append(&prepared);
    }
    fits
}

fn to(identifiers: &[u32], retain: bool) -> DeliverTo {
    let identifiers = (!identifiers.is_empty()).then(|| Arc::from(identifiers));
    let flags = DeliverFlags {
        retain,
        ..DeliverFlags::default()
    };
    DeliverTo {
        identifiers,
        flags,
        ..to_front(QoS::AtMostOnce)
    }
}

#[test]
fn a_run_is_what_its_messages_are_one_by_one() {
    let cases = [
        (V311, to(&[], false)),
        (V311, to(&[7], true)),
        (V5, to(&[], false)),
        (V5, to(&[7, 300], true)),
    ];
    for (version, to) in cases {
        for count in [1, 3, 200] {
            let (mut one_by_one, mut gathering) =
                (Client::attached(version), Client::attached(version));
            gathering.front.output().take_packets();
            let mut run = begun(&gathering, &to).expect("this client takes runs");
            for number in 0..count {
                let payload = format!("message {number}");
                let mut message = view("a/b", QoS::AtLeastOnce, payload.as_bytes());
                if number % 2 == 0 {
                    message.expires_at = Some(WallMs(gathering.now.wall.0 + 9_500));
                }
                one_by_one.gets(message, &to);
                assert!(gather(&mut run, &gathering, message));
            }
            let packed = run.pack(&mut RunBlocks::default());
            assert_eq!(
                matches!(packed, Packed::Shared(_)),
                count == 200,
                "few bytes are copied, many are shared"
            );
            run.hand_over(&packed, &mut gathering.front);
            gathering.front.check();
            assert_eq!(gathering.front.output().take_packets(), count);
            assert_eq!(gathering.receives(), one_by_one.receives());
        }
    }
}

#[test]
fn order_is_that_of_the_calls() {
    let mut client = Client::attached(V5);
    let mut run = begun(&client, &to(&[], false)).unwrap();
    let mut blocks = RunBlocks::default();
    client.gets(view("t", QoS::AtMostOnce, b"0"), &to(&[], false));
    for (first, last) in [(1, 2), (4, 5)] {
        for number in first..=last {
            let payload = number.to_string();
            assert!(gather(
                &mut run,
                &client,
                view("t", QoS::AtMostOnce, payload.as_bytes())
            ));
        }
        let packed = run.pack(&mut blocks);
        run.hand_over(&packed, &mut client.front);
        assert!(run.begin(&client.front, &to(&[], false)));
        let payload = (last + 1).to_string();
        client.gets(
            view("t", QoS::AtMostOnce, payload.as_bytes()),
            &to(&[], false),
        );
    }
    let expected: Vec<String> = (0..7)
        .map(|number| format!("PUBLISH \"t\" q0 '{number}'"))
        .collect();
    assert_eq!(client.hears(), expected);
}

#[test]
fn receivers_of_other_bytes_are_not_admitted() {
    let first = Client::attached(V5);
    let mut run = begun(&first, &to(&[1], false)).unwrap();
    assert!(run.admit(&Client::attached(V5).front, &to(&[1], false)));
    assert!(!run.admit(&Client::attached(V5).front, &to(&[2], false)));
    assert!(!run.admit(&Client::attached(V5).front, &to(&[], false)));
    assert!(!run.admit(&Client::attached(V5).front, &to(&[1], true)));
    assert!(!run.admit(&Client::attached(V311).front, &to(&[1], false)));
    // v3 clients are told no identifiers: they may differ.
    let first = Client::attached(V311);
    let mut run = begun(&first, &to(&[1], false)).unwrap();
    assert!(run.admit(&Client::attached(V311).front, &to(&[2], false)));
}

#[test]
fn whoever_needs_its_messages_one_by_one_is_not_admitted() {
    let to = to(&[], false);
    let with_aliases = Client::attached_with(
        V5,
        |_| {},
        &Hello {
            properties: &[Property::TopicAliasMaximum(3)],
            ..Hello::default()
        },
    );
    assert!(begun(&with_aliases, &to).is_none());
    let mut blocked = Client::attached(V5);
    blocked.front.output().set_socket(Socket::Full);
    assert!(begun(&blocked, &to).is_none(), "M23 counts its own bytes");
    blocked.front.output().set_socket(Socket::Open);
    assert!(begun(&blocked, &to).is_some());
    let mut near_its_bound = Client::attached_with(
        V5,
        |config| config.output_bytes_max = 64 * 1024,
        &Hello::default(),
    );
    let payload = Bytes::from(vec![b'x'; 64 * 1024 - Run::BYTES_MAX]);
    near_its_bound.gets(view("t", QoS::AtMostOnce, &payload), &to);
    assert!(begun(&near_its_bound, &to).is_none());
    assert!(
        begun(&Client::new(V5, |_| {}), &to).is_none(),
        "not attached"
    );
}

#[test]
fn what_does_not_fit_is_told_before() {
    let client = Client::attached(V5);
    let mut run = begun(&client, &to(&[], false)).unwrap();
    let mut late = view("t", QoS::AtMostOnce, b"late");
    late.expires_at = Some(client.now.wall);
    assert!(!gather(&mut run, &client, late), "its time is over");
    let large = vec![b'x'; SHARED_PAYLOAD_BYTES_MIN];
    assert!(!gather(
        &mut run,
        &client,
        view("t", QoS::AtMostOnce, &large)
    ));
    // v5 [MQTT-3.1.2-24]: the smallest Maximum Packet Size of the receivers counts.
    let small = Client::attached_with(
        V5,
        |_| {},
        &Hello {
            properties: &[Property::MaximumPacketSize(NonZeroU32::new(100).unwrap())],
            ..Hello::default()
        },
    );
    assert!(gather(
        &mut run,
        &client,
        view("t", QoS::AtMostOnce, &[b'x'; 100])
    ));
    assert!(run.begin(&client.front, &to(&[], false)));
    assert!(run.admit(&small.front, &to(&[], false)));
    assert!(!gather(
        &mut run,
        &client,
        view("t", QoS::AtMostOnce, &[b'x'; 100])
    ));
    let mut bytes = 0;
    while gather(&mut run, &client, view("t", QoS::AtMostOnce, &[b'x'; 90])) {
        bytes += 90;
    }
    assert!(bytes < Run::BYTES_MAX, "a run has an end");
}

#[test]
fn blocks_come_back_when_their_outputs_are_written() {
    let mut client = Client::attached(V311);
    let mut blocks = RunBlocks::default();
    let mut places = std::collections::HashSet::new();
    for _ in 0..200 {
        let mut run = begun(&client, &to(&[], false)).unwrap();
        while gather(&mut run, &client, view("t", QoS::AtMostOnce, &[b'x'; 1000])) {}
        let packed = run.pack(&mut blocks);
        if let Packed::Shared(bytes) = &packed {
            places.insert(bytes.as_ptr() as usize);
        }
        run.hand_over(&packed, &mut client.front);
        drop(packed);
        let len = client.front.output().len();
        client.front.output().advance(len);
    }
    assert!(places.len() <= 4, "{} places", places.len());
}
