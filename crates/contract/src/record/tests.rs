use super::*;
use crate::{HomeRef, PartitionId, SessionUid, WallMs};

fn view<'a>(topic: &'a str, properties: &'a [u8], payload: &'a [u8]) -> RecordView<'a> {
    RecordView {
        topic,
        properties,
        payload,
        qos: QoS::ExactlyOnce,
        retain: true,
        expires_at: Some(WallMs(12_345)),
        publisher: Some(HomeRef {
            partition: PartitionId(3),
            session: SessionUid(77),
        }),
    }
}

#[test]
fn what_is_encoded_is_read_back() {
    for (topic, properties, payload) in [
        ("a", &b""[..], &b""[..]),
        ("a/b", b"\x01\x01", b"payload"),
        ("ü/ß", b"", &[7; 1000]),
    ] {
        let full = view(topic, properties, payload);
        let bare = RecordView {
            qos: QoS::AtMostOnce,
            retain: false,
            expires_at: None,
            publisher: None,
            ..full
        };
        for record in [full, bare] {
            let copy = Record::copy_of(&record);
            assert_eq!(copy.view(), record);
            assert_eq!(copy.bytes().len(), record.encoded_len());
            assert_eq!(copy.bytes().len() % 8, 0);
        }
    }
}

#[test]
fn records_stand_one_behind_the_other() {
    let mut block = Vec::new();
    let (first, second) = (view("a", b"", b"1"), view("b/c", b"", b"22"));
    first.encode(&mut block);
    let start = block.len();
    second.encode(&mut block);
    let block = Bytes::from(block);
    assert_eq!(RecordRef::parse(&block, 0).map(|r| r.view()), Some(first));
    let record = RecordRef::parse(&block, start).expect("the second record");
    assert_eq!(record.view(), second);
    assert_eq!(record.to_record().view(), second);
}

#[test]
fn cut_or_changed_bytes_are_no_record() {
    let bytes = Record::copy_of(&view("topic", b"\x01\x01", b"payload"))
        .bytes()
        .clone();
    for len in 0..bytes.len() {
        assert!(
            RecordRef::parse(&bytes.slice(..len), 0).is_none(),
            "cut at {len}"
        );
    }
    for (at, bad) in [(0, 200), (6, 3), (7, 9), (12, 255), (40, 0xFF)] {
        let mut changed = bytes.to_vec();
        changed[at] = bad;
        assert!(
            RecordRef::parse(&Bytes::from(changed), 0).is_none(),
            "byte {at}"
        );
    }
}
