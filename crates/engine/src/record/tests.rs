use bytes::Bytes;
use courser_contract::{QoS, RecordView};

use super::*;

fn view(payload: &[u8]) -> RecordView<'_> {
    RecordView {
        topic: "t",
        properties: b"",
        payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at: None,
        publisher: None,
        author: None,
    }
}

/// An entry of some records, and where they are.
fn entry(payloads: &[&[u8]]) -> (Bytes, Vec<(usize, usize)>) {
    let mut bytes = vec![0; 32];
    let places = payloads
        .iter()
        .map(|payload| {
            let start = bytes.len();
            view(payload).encode(&mut bytes);
            (start, bytes.len() - start)
        })
        .collect();
    (bytes.into(), places)
}

fn add(records: &mut Records, index: u64, payloads: &[&[u8]]) -> Vec<Slot> {
    let (bytes, places) = entry(payloads);
    let block = records.begin_entry(&bytes);
    let slots: Vec<Slot> = places
        .into_iter()
        .map(|(start, len)| records.insert(block, start, len, index))
        .collect();
    records.end_entry(block, slots.len() as u64);
    records.check();
    slots
}

#[test]
fn m16_an_address_survives_moves_and_a_slot_is_used_again() {
    let mut records = Records::default();
    let slots = add(&mut records, 1, &[b"a", b"b"]);
    let address = records.address(slots[1]);
    assert!(records.release(slots[0]));
    let big = vec![0; 20_000];
    for index in 2..40 {
        let slots = add(&mut records, index, &[&big]);
        assert!(records.release(slots[0]));
        records.check();
    }
    assert_eq!(records.view(slots[1]).payload, b"b");
    assert_eq!(records.address(slots[1]), address);
    let again = add(&mut records, 40, &[b"c"]);
    assert_ne!(records.address(again[0]), address);
    assert_eq!(records.live(), 2);
}

#[test]
fn held_bytes_follow_live_bytes() {
    let mut records = Records::default();
    let payload = [1; 960];
    let mut kept = Vec::new();
    for index in 1..2_000 {
        let slots = add(&mut records, index, &[&payload[..]; 4]);
        for (at, slot) in slots.into_iter().enumerate() {
            if at == 0 {
                kept.push(slot);
            } else {
                records.release(slot);
            }
        }
    }
    let live = 2_000 * 1_016;
    let held = records.held_bytes();
    assert!(held < 2 * live + block::YOUNG_BYTES, "{held} held");
    for slot in kept {
        records.release(slot);
    }
    records.check();
    assert_eq!((records.live(), records.held_bytes()), (0, 0));
}

#[test]
fn a_record_goes_with_its_last_reference() {
    let mut records = Records::default();
    let slot = add(&mut records, 1, &[b"a"])[0];
    records.keep_for(slot, 1);
    assert!(!records.release(slot));
    assert!(records.is_live(slot));
    assert!(records.release(slot));
    assert!(!records.is_live(slot));
}
