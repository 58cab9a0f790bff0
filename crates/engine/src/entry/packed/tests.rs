use proptest::prelude::*;

use super::*;

fn target(owner: Owner, counter: u64, place: u32, identifiers: &[u32]) -> Target {
    Target {
        stream: ids::stream_of(owner, counter, place),
        qos: QoS::AtLeastOnce,
        retain: RetainMark::Keep,
        identifiers: (!identifiers.is_empty()).then(|| identifiers.into()),
    }
}

fn packed(targets: &[Target]) -> Vec<u8> {
    let mut out = Vec::new();
    PackedTargets(targets.to_vec()).write(&mut out);
    out
}

fn read(bytes: &[u8]) -> Result<Vec<Target>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let targets = reader.read::<PackedTargets>()?;
    reader.finish()?;
    Ok(targets.0)
}

#[test]
fn sessions_in_a_row_take_three_bytes_each() {
    let of_row = |count: u32| -> Vec<Target> {
        let target = |at| target(Owner::Session, 1_000_000 + u64::from(at), 900 + at, &[]);
        (0..count).map(target).collect()
    };
    let [some, more] = [of_row(10), of_row(110)].map(|targets| {
        let bytes = packed(&targets);
        assert_eq!(read(&bytes), Ok(targets));
        bytes.len()
    });
    assert_eq!(more - some, 3 * 100);
}

#[test]
fn a_target_of_any_number_takes_no_more_than_a_target_in_place() {
    let ends = [
        target(Owner::Session, 0, PLACES_MAX - 1, &[]),
        target(Owner::Group, COUNTER_MAX - 1, 0, &[]),
        target(Owner::Session, 0, PLACES_MAX - 1, &[]),
    ];
    let bytes = packed(&ends);
    assert_eq!(read(&bytes), Ok(ends.to_vec()));
    assert!(bytes.len() <= 4 + 16 * ends.len(), "{}", bytes.len());
}

#[test]
fn what_no_target_says_is_refused() {
    let one = |bytes: &[u8]| [&1_u32.to_le_bytes()[..], bytes].concat();
    for (bytes, what) in [
        (one(&[3, 2, 2]), "QoS 3"),
        (one(&[3 << 2, 2, 2]), "RETAIN 3"),
        (one(&[1 << 6, 2, 2]), "a flag that there is not"),
        (one(&[1, 1, 2]), "a counter below 0"),
        (one(&[1, 2, 1]), "a place below 0"),
        (
            one(&[1, 2, 0x80, 0x80, 0x80, 0x10]),
            "a place above the table",
        ),
        (
            one(&[1 | IDENTIFIERS, 2, 2, 0x81, 0x80, 1]),
            "16,385 identifiers",
        ),
        (
            2_000_000_u32.to_le_bytes().to_vec(),
            "more than there is room for",
        ),
    ] {
        assert!(read(&bytes).is_err(), "{what}");
    }
}

prop_compose! {
    fn any_target()(
        group: bool,
        counter in prop_oneof![0..COUNTER_MAX, 0..300_u64],
        place in 0..PLACES_MAX,
        qos in 0..3_u8,
        retain in 0..3_u8,
        identifiers in prop::option::of(prop::collection::vec(any::<u32>(), 0..4)),
    ) -> Target {
        let owner = if group { Owner::Group } else { Owner::Session };
        Target {
            stream: ids::stream_of(owner, counter, place),
            qos: QoS::from_bits(qos).expect("0 to 2"),
            retain: RetainMark::from_bits(retain).expect("0 to 2"),
            identifiers: identifiers.map(Into::into),
        }
    }
}

proptest! {
    #[test]
    fn targets_come_back(targets in prop::collection::vec(any_target(), 0..40)) {
        let bytes = packed(&targets);
        prop_assert_eq!(read(&bytes), Ok(targets));
        for end in 0..bytes.len() {
            prop_assert!(read(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_a_list_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(targets) = read(&bytes) {
            prop_assert_eq!(packed(&targets), bytes, "a list has one form");
        }
    }
}
