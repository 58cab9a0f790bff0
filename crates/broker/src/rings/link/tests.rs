//! Links of few slots: nothing is lost or reordered, nobody waits, batches are not multiplied.

use super::super::{Control, Message, mesh};
use super::*;
use courser_contract::{
    Append, AppendKey, AppendNumber, Origin, PartitionId, Publish, QoS, Settled, ShardId,
};
use proptest::prelude::*;

const PARTITION: PartitionId = PartitionId(1);
const ORIGIN: Origin = Origin {
    node: 0,
    shard: ShardId(0),
    start: 1,
};

fn message(payload: &[u8]) -> Publish<'_> {
    Publish {
        topic: "t",
        properties: &[],
        payload,
        qos: QoS::AtMostOnce,
        retain: false,
        expires_at: None,
        publisher: None,
        author: None,
    }
}

const fn append<'a>(publish: &'a Publish<'a>) -> Append<'a> {
    Append {
        key: AppendKey::Unanswered,
        publish,
        keep_retained: false,
        deliver: true,
        cut: courser_contract::Cut(0),
    }
}

/// The numbers of the appends in a batch.
fn numbers(batch: &mut Batch) -> Vec<u64> {
    (0..batch.len())
        .map(|at| match batch.take(at) {
            Some(Message::Append { record, .. }) => {
                let payload = batch.record(record).payload;
                u64::from_le_bytes(payload[..8].try_into().expect("a number was sent"))
            }
            other => panic!("only appends were sent, not {other:?}"),
        })
        .collect()
}

#[test]
fn m22_a_full_link_keeps_gathering_and_goes_on_when_a_batch_comes_back() {
    let (mut sender, mut receiver) = link(2);
    for number in 0..3_u64 {
        sender
            .batch()
            .push_append(PARTITION, &append(&message(&number.to_le_bytes())), None);
        let expected = if number < 2 {
            Flushed::Sent
        } else {
            Flushed::NoCredit
        };
        assert_eq!(sender.flush(), expected);
    }
    sender
        .batch()
        .push_append(PARTITION, &append(&message(&3_u64.to_le_bytes())), None);
    assert!(sender.waits_for_credit());
    let mut first = receiver.take().expect("two were sent");
    assert_eq!(numbers(&mut first), [0]);
    assert!(!receiver.give_back(first), "nobody asked to be woken");
    sender.collect();
    assert_eq!(sender.flush(), Flushed::Sent);
    sender.want_return();
    let mut second = receiver.take().expect("two were sent");
    assert_eq!(numbers(&mut second), [1]);
    assert!(receiver.give_back(second), "the sender asked to be woken");
    let mut third = receiver
        .take()
        .expect("one was sent on the credit that came back");
    assert_eq!(
        numbers(&mut third),
        [2, 3],
        "what gathered meanwhile goes in one batch"
    );
    assert!(!receiver.give_back(third), "one wake is enough");
    sender.collect();
    sender.check();
}

#[test]
fn m48_requests_need_room_and_replies_do_not() {
    let (mut sender, mut receiver) = link(2);
    let payload = vec![0; 100_000];
    let mut requests = 0;
    while sender.has_room() {
        sender
            .batch()
            .push_append(PARTITION, &append(&message(&payload)), None);
        sender.flush();
        requests += 1;
    }
    assert!(
        (10..=12).contains(&requests),
        "1 MiB is {requests} appends of 100,000 bytes"
    );
    for number in 1..=1000 {
        sender
            .batch()
            .push_settled(PARTITION, ORIGIN, AppendNumber(number), Settled::Ok);
    }
    assert_eq!(
        sender.batch().len(),
        requests - 2 + 1,
        "answers in a row are one message"
    );
    while let Some(batch) = receiver.take() {
        receiver.give_back(batch);
        sender.collect();
        sender.flush();
    }
    sender.collect();
    sender.check();
    assert!(sender.has_room(), "what was handled weighs nothing");
}

#[test]
fn a_mark_is_passed_when_everything_before_it_was_handled() {
    let (mut sender, mut receiver) = link(2);
    assert!(sender.has_passed(sender.mark()), "nothing was sent");
    sender.batch().push(Message::Control(Control::ReportAsk(1)));
    let mark = sender.mark();
    sender.flush();
    sender.batch().push(Message::Control(Control::ReportAsk(2)));
    sender.flush();
    assert!(!sender.has_passed(mark));
    let batch = receiver.take().expect("it was sent");
    sender.collect();
    assert!(!sender.has_passed(mark), "taken is not handled");
    receiver.give_back(batch);
    sender.collect();
    assert!(sender.has_passed(mark));
    assert!(!sender.has_passed(sender.mark()));
}

#[test]
fn a_mesh_links_every_pair_once() {
    let mut ports = mesh(3, 2);
    for (from, port) in ports.iter_mut().enumerate() {
        for (to, sender) in port.to.iter_mut().enumerate() {
            assert_eq!(sender.is_some(), from != to);
            if let Some(sender) = sender {
                let number = (from * 3 + to) as u64;
                sender.batch().push_append(
                    PARTITION,
                    &append(&message(&number.to_le_bytes())),
                    None,
                );
            }
        }
        port.flush();
    }
    for (to, port) in ports.iter_mut().enumerate() {
        assert!(port.has_work());
        for from in (0..3).filter(|&from| from != to) {
            let receiver = port.from[from].as_mut().expect("a pair is linked");
            let mut batch = receiver.take().expect("one batch was sent");
            assert_eq!(numbers(&mut batch), [(from * 3 + to) as u64]);
            port.give_back(ShardId(from as u16), batch);
        }
    }
    assert!(
        !ports.iter().any(Ports::has_work),
        "emptied batches that nobody waits for are no work"
    );
    for port in &mut ports {
        port.to.iter_mut().flatten().for_each(Sender::want_return);
        assert!(port.has_work(), "emptied batches came back");
    }
}

use super::super::Ports;

proptest! {
    /// Random turns of both sides over a link of one to three slots: all arrives once and in order, the invariants hold.
    #[test]
    fn everything_arrives_once_and_in_order(
        slots in 1usize..=3,
        steps in prop::collection::vec(0u8..5, 1..200),
    ) {
        let (mut sender, mut receiver) = link(slots);
        let (mut sent, mut arrived) = (0_u64, Vec::new());
        let mut held = std::collections::VecDeque::new();
        for step in steps {
            match step {
                0 | 1 => {
                    sender.batch().push_append(PARTITION, &append(&message(&sent.to_le_bytes())), None);
                    sent += 1;
                }
                2 => {
                    sender.collect();
                    sender.flush();
                }
                3 => held.extend(receiver.take()),
                _ => if let Some(mut batch) = held.pop_front() {
                    arrived.extend(numbers(&mut batch));
                    receiver.give_back(batch);
                }
            }
            sender.check();
        }
        loop {
            sender.collect();
            let flushed = sender.flush();
            held.extend(receiver.take());
            let Some(mut batch) = held.pop_front() else {
                prop_assert_eq!(flushed, Flushed::Nothing);
                break;
            };
            arrived.extend(numbers(&mut batch));
            receiver.give_back(batch);
        }
        prop_assert_eq!(arrived, (0..sent).collect::<Vec<_>>());
    }
}

/// All links of eight shards held 3 MiB after large messages, of the 24 MiB that there may be: memory stayed full, and everybody was refused.
#[test]
fn what_batches_hold_after_large_messages_is_given_back_and_nothing_that_waits() {
    let (mut sender, mut receiver) = link(3);
    let large = [1; 50_000];
    for _ in 0..3 {
        sender
            .batch()
            .push_append(PARTITION, &append(&message(&large)), None);
        assert_eq!(sender.flush(), Flushed::Sent);
    }
    while let Some(batch) = receiver.take() {
        receiver.give_back(batch);
    }
    sender.collect();
    let held = |sender: &Sender| -> usize {
        let all = sender.spare.iter().chain([&sender.gathering]);
        all.map(Batch::arena_bytes).sum()
    };
    assert!(held(&sender) >= 3 * large.len());
    sender.trim();
    sender.check();
    assert_eq!(held(&sender), 0);
    sender
        .batch()
        .push_append(PARTITION, &append(&message(&7_u64.to_le_bytes())), None);
    let weight = sender.gathering.weight();
    sender.trim();
    assert_eq!(sender.gathering.weight(), weight, "what waits stays");
    assert_eq!(sender.flush(), Flushed::Sent);
    let mut batch = receiver.take().expect("it was sent");
    assert_eq!(numbers(&mut batch), [7]);
}
