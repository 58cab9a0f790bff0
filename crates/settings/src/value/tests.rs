use super::{
    ByteSize, Mismatch, Overflow, Raw, SharedStrategy, TopicFilter, Value, quoted, size, span,
};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

#[test]
fn sizes() {
    let check = |text: &str, expected: Result<u64, Mismatch>| {
        assert_eq!(size::parse(text).map(ByteSize::bytes), expected, "{text:?}");
    };
    check("0", Ok(0));
    check("1500", Ok(1500));
    check("1500B", Ok(1500));
    check("16MiB", Ok(16 << 20));
    check(" 16 mib ", Ok(16 << 20));
    check("2KB", Ok(2000));
    check("3GB", Ok(3_000_000_000));
    check("1TiB", Ok(1 << 40));
    check("16777215TiB", Ok(16_777_215 << 40));
    check("16777216TiB", Err(Mismatch::Range));
    check("99999999999999999999", Err(Mismatch::Range));
    for text in [
        "", "MiB", "-1", "1.5MiB", "1MiB2", "1Mi", "1 M iB", "0x10", "１MiB",
    ] {
        check(text, Err(Mismatch::Kind));
    }
}

#[test]
fn durations() {
    let check = |text: &str, expected: Result<u64, Mismatch>| {
        assert_eq!(
            span::parse(text),
            expected.map(Duration::from_millis),
            "{text:?}"
        );
    };
    check("0s", Ok(0));
    check("250ms", Ok(250));
    check("30s", Ok(30_000));
    check("1h30m", Ok(5_400_000));
    check("1h 30m", Ok(5_400_000));
    check("7d", Ok(7 * 86_400_000));
    check("1d2h3m4s5ms", Ok(93_784_005));
    check("213503982334d", Ok(213_503_982_334 * 86_400_000));
    check("213503982335d", Err(Mismatch::Range));
    check("99999999999999999999s", Err(Mismatch::Range));
    for text in [
        "", "30", "s", "-1s", "1.5s", "30m1h", "1s1s", "1 s", "1S", "1w", "1s,",
    ] {
        check(text, Err(Mismatch::Kind));
    }
}

#[test]
fn texts() {
    let read = |text: &str| String::from_raw(&Raw::Text(text.to_owned()));
    for text in ["", "reply/", "a.example b.example:1883", "ä\"b"] {
        assert_eq!(read(text), Ok(text.to_owned()));
    }
    assert!(read(&"x".repeat(1024)).is_ok());
    for text in ["a\0b", "line\n", &"x".repeat(1025)] {
        assert_eq!(read(text), Err(Mismatch::Kind), "{text:?}");
    }
    assert_eq!(String::from_raw(&Raw::Integer(1)), Err(Mismatch::Kind));
}

#[test]
fn address_lists() {
    let read = |raw: Raw| Vec::<SocketAddr>::from_raw(&raw);
    let both: Vec<SocketAddr> = vec![
        "127.0.0.1:1883".parse().expect("v4"),
        "[::1]:1883".parse().expect("v6"),
    ];
    let text = |text: &str| Raw::Text(text.to_owned());
    assert_eq!(read(text("127.0.0.1:1883,[::1]:1883")), Ok(both.clone()));
    assert_eq!(
        read(Raw::List(vec![text("127.0.0.1:1883"), text("[::1]:1883")])),
        Ok(both)
    );
    assert_eq!(read(text("")), Ok(vec![]));
    assert_eq!(read(Raw::List(vec![])), Ok(vec![]));
    for (wrong, expects) in [
        ("1883", "an address before the port"),
        ("localhost:1883", "an address, since names are not"),
        ("127.0.0.1", "a port behind the address"),
        ("::1:1883:", "an address such as"),
        ("127.0.0.1:65536", "a port of at most 65535"),
    ] {
        match read(text(wrong)) {
            Err(Mismatch::Text(found)) => assert!(found.starts_with(expects), "{wrong}: {found}"),
            other => panic!("{other:?} for {wrong:?}"),
        }
    }
}

#[test]
fn of_a_list_the_wrong_item_is_told() {
    let check = |read: Result<(), Mismatch>, position, shown: &str| match read {
        Err(Mismatch::Item {
            position: at,
            found,
            ..
        }) => assert_eq!((at, found.as_str()), (position, shown)),
        other => panic!("{other:?} for {shown}"),
    };
    let addresses = |raw: Raw| Vec::<SocketAddr>::from_raw(&raw).map(|_| ());
    let text = |text: &str| Raw::Text(text.to_owned());
    let good = "127.0.0.1:1";
    check(addresses(text("127.0.0.1:1,")), 2, "\"\"");
    check(addresses(text("127.0.0.1:1, x,y")), 2, "\"x\"");
    check(addresses(Raw::List(vec![Raw::Integer(1883)])), 1, "1883");
    let nested = Raw::List(vec![text(good), Raw::List(vec![text(good)])]);
    check(addresses(nested), 2, "a list");
    let networks = Raw::List(vec![text("10.0.0.0/8"), text("10.0.0.0/33")]);
    let read = Vec::<crate::Network>::from_raw(&networks).map(|_| ());
    check(read, 2, "\"10.0.0.0/33\"");
    let texts = Raw::List(vec![text("a"), text("b\n")]);
    check(Vec::<String>::from_raw(&texts).map(|_| ()), 2, "\"b\\n\"");
}

#[test]
fn choices_are_words() {
    for strategy in [
        SharedStrategy::RoundRobin,
        SharedStrategy::Sticky,
        SharedStrategy::HashTopic,
        SharedStrategy::LeastOutstanding,
    ] {
        assert_eq!(
            SharedStrategy::from_raw(&Raw::Text(strategy.name().to_owned())),
            Ok(strategy)
        );
    }
    for (wrong, expected) in [
        ("drop-newest", Some("drop_newest")),
        ("DROP_OLDEST", Some("drop_oldest")),
        ("refuze", Some("refuse")),
        ("block", None),
        ("", None),
    ] {
        let meant = match Overflow::from_raw(&Raw::Text(wrong.to_owned())) {
            Err(Mismatch::Near { meant, .. }) => Some(meant),
            Err(Mismatch::Kind) => None,
            other => panic!("{other:?} for {wrong:?}"),
        };
        assert_eq!(meant.as_deref(), expected, "{wrong:?}");
    }
    assert_eq!(Overflow::from_raw(&Raw::Bool(true)), Err(Mismatch::Kind));
}

#[test]
fn topic_filters() {
    let read = |text: &str| TopicFilter::from_raw(&Raw::Text(text.to_owned()));
    for text in ["a", "/", "+", "#", "a/+/b", "a//b", "+/#", "$share", "é/#"] {
        assert!(
            read(text).is_ok_and(|filter| filter.as_str() == text),
            "{text:?}"
        );
    }
    for text in ["", "a#", "#/a", "a+", "+a/b", "a/#/b", "a\0", "##"] {
        assert_eq!(read(text), Err(Mismatch::Kind), "{text:?}");
    }
    assert!(read(&"x".repeat(65_535)).is_ok());
    assert!(read(&"x".repeat(65_536)).is_err());
}

#[test]
fn what_may_be_left_out_has_an_empty_default() {
    assert_eq!(None::<u32>.show(), "");
    assert_eq!(Some(5_u32).show(), "5");
    assert_eq!(Option::<u32>::from_raw(&Raw::Integer(5)), Ok(Some(5)));
    assert_eq!(
        Option::<u32>::from_raw(&Raw::Integer(-5)),
        Err(Mismatch::Range)
    );
}

proptest! {
    #[test]
    fn a_text_is_read_as_it_is_quoted(text: String) {
        let line = format!("a = {}", quoted(&text));
        let table: toml::Table = line.parse().expect("this is TOML");
        prop_assert_eq!(table["a"].as_str(), Some(text.as_str()));
    }

    #[test]
    fn a_size_is_read_as_it_is_shown(bytes: u64, unit in 0..5_u32) {
        let size = ByteSize::new(bytes >> (10 * unit) << (10 * unit));
        prop_assert_eq!(size::parse(&size.to_string()), Ok(size));
    }

    #[test]
    fn a_duration_is_read_as_it_is_shown(count in 0..1_000_000_u64, unit in prop_oneof![Just(1), Just(1000), Just(60_000), Just(86_400_000)]) {
        let duration = Duration::from_millis(count * unit);
        prop_assert_eq!(span::parse(&span::show(duration)), Ok(duration));
    }

    #[test]
    fn no_text_panics(text: String) {
        let _ = (size::parse(&text), span::parse(&text));
    }
}
