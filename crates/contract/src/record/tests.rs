use super::*;
use crate::{ClientHash, WallMs};

fn view<'a>(topic: &'a str, properties: &'a [u8], payload: &'a [u8]) -> RecordView<'a> {
    RecordView {
        topic,
        properties,
        payload,
        qos: QoS::ExactlyOnce,
        retain: true,
        expires_at: Some(WallMs(12_345)),
        publisher: Some(ClientHash::of("publisher")),
        author: None,
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
            author: None,
            ..full
        };
        let authored = |record| RecordView {
            author: Some("c\0anna\0@17"),
            ..record
        };
        for record in [full, bare, authored(full), authored(bare)] {
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
    let bad = [
        (0, 200),
        (0, 8),
        (6, 3),
        (7, 9),
        (8, 255),
        (14, 1),
        (32, 0xFF),
    ];
    for (at, bad) in bad {
        let mut changed = bytes.to_vec();
        changed[at] = bad;
        assert!(
            RecordRef::parse(&Bytes::from(changed), 0).is_none(),
            "byte {at}"
        );
    }
}

#[test]
fn a_record_with_an_author_is_of_version_2_and_any_other_as_it_was() {
    let plain = view("topic", b"\x01\x01", b"payload");
    let authored = RecordView {
        author: Some("c\0anna"),
        ..plain
    };
    let version = |view| Record::copy_of(view).bytes()[7];
    assert_eq!(version(&plain), PLAIN_VERSION);
    assert_eq!(version(&authored), RECORD_VERSION);
    let bytes = Record::copy_of(&authored).bytes().clone();
    for len in 0..bytes.len() {
        assert!(
            RecordRef::parse(&bytes.slice(..len), 0).is_none(),
            "cut at {len}"
        );
    }
    // A later version, an author that is longer than the record, one that is no text.
    for (at, bad) in [(7, 3), (32, 200), (35, 1), (36, 0xFF)] {
        let mut changed = bytes.to_vec();
        changed[at] = bad;
        assert!(
            RecordRef::parse(&Bytes::from(changed), 0).is_none(),
            "byte {at}"
        );
    }
}

#[test]
fn a_record_is_small_beside_what_it_carries() {
    let bare = RecordView {
        expires_at: None,
        publisher: None,
        author: None,
        ..view("a/b", b"", &[7; 125])
    };
    assert_eq!(bare.encoded_len(), 16 + 3 + 125);
    assert_eq!(view("a/b", b"", &[7; 125]).encoded_len(), 32 + 3 + 125);
}

#[test]
fn a_topic_that_is_expected_is_read_like_any_other() {
    let first = Record::copy_of(&view("a/b", b"", b"1"));
    for topic in ["a/b", "a/c", "a/bc", "a", "ü"] {
        let next = Record::copy_of(&view(topic, b"", b"2"));
        let read = next.as_ref().view_like(first.view().topic).topic;
        assert_eq!(read, topic);
    }
}

#[test]
#[should_panic(expected = "there is room for the record and no more")]
fn a_record_is_written_into_its_own_length() {
    let view = view("a", b"", b"1");
    view.encode_into(&mut vec![0; view.encoded_len() + 8]);
}
