use proptest::prelude::*;

use super::*;

/// A header of version 2 for these addresses.
fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let mut bytes = v2::PROTOCOL_PREFIX.to_vec();
    bytes.extend([0x20 | command, family]);
    let length = u16::try_from(addresses.len()).expect("a short test");
    bytes.extend(length.to_be_bytes());
    bytes.extend(addresses);
    bytes
}

const FROM_V4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0xC0, 0x01, 0x07, 0x5B];

#[test]
fn both_versions_say_who_connected() {
    let v4: SocketAddr = "192.0.2.7:49153".parse().expect("an address");
    let v6: SocketAddr = "[2001:db8::7]:49153".parse().expect("an address");
    let mut of_v6 = "2001:db8::7"
        .parse::<std::net::Ipv6Addr>()
        .expect("an address")
        .octets()
        .to_vec();
    of_v6.extend([0; 16]);
    of_v6.extend([0xC0, 0x01, 0x07, 0x5B]);
    let table = [
        (
            b"PROXY TCP4 192.0.2.7 10.0.0.1 49153 1883\r\n".to_vec(),
            Some(v4),
        ),
        (
            b"PROXY TCP6 2001:db8::7 2001:db8::1 49153 1883\r\n".to_vec(),
            Some(v6),
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (b"PROXY UNKNOWN anything it likes\r\n".to_vec(), None),
        (binary(1, 0x11, &FROM_V4), Some(v4)),
        (binary(1, 0x21, &of_v6), Some(v6)),
        // A health check of the proxy itself.
        (binary(0, 0x00, &[]), None),
        (binary(0, 0x11, &FROM_V4), None),
        // Additional fields are skipped.
        (
            binary(1, 0x11, &[&FROM_V4[..], &[0x04, 0, 2, 9, 9]].concat()),
            Some(v4),
        ),
    ];
    for (header, source) in table {
        let length = header.len();
        for end in 0..length {
            assert_eq!(read(&header[..end]), Ok(None), "{header:?} cut at {end}");
        }
        let followed = [&header[..], &[0x10, 0x0C, 0xFF]].concat();
        assert_eq!(
            read(&followed),
            Ok(Some(Header { source, length })),
            "{header:?}"
        );
    }
}

/// As of proxies that pass on the certificate that a client has shown to them (its section 2.2.6).
#[test]
fn a_header_with_a_certificate_in_it_is_read() {
    const FIELD_BYTES: usize = 3;
    let with = |bytes: usize| {
        let value = bytes - FIXED_BYTES - FROM_V4.len() - FIELD_BYTES;
        let mut field = vec![0x28];
        field.extend((value as u16).to_be_bytes());
        field.resize(FIELD_BYTES + value, 7);
        binary(1, 0x11, &[&FROM_V4[..], &field].concat())
    };
    for bytes in [1025, 8 * 1024, HEADER_BYTES_MAX] {
        let header = with(bytes);
        assert_eq!(header.len(), bytes);
        let source = "192.0.2.7:49153".parse().ok();
        let read_header = Header {
            source,
            length: bytes,
        };
        assert_eq!(read(&header), Ok(Some(read_header)), "{bytes}");
        assert_eq!(read(&header[..bytes - 1]), Ok(None), "{bytes}");
    }
    let long = with(HEADER_BYTES_MAX + 1);
    assert_eq!(read(&long), Err(ProxyError::TooLong));
    assert_eq!(read(&long[..FIXED_BYTES]), Err(ProxyError::TooLong));
}

#[test]
fn what_is_no_header_is_refused_with_the_reason() {
    let mut long_line = b"PROXY UNKNOWN ".to_vec();
    long_line.resize(LINE_BYTES_MAX, b'x');
    let mut long = binary(1, 0x11, &FROM_V4);
    long[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    let table: [(Vec<u8>, ProxyError); 10] = [
        // CONNECT without a header, TLS without a header.
        (vec![0x10, 0x0C], ProxyError::Missing),
        (vec![0x16, 0x03, 0x01], ProxyError::Missing),
        (b"PROXZ".to_vec(), ProxyError::Missing),
        (
            b"PROXY TCP4 192.0.2.7 10.0.0.1 70000 1883\r\n".to_vec(),
            ProxyError::Malformed,
        ),
        (
            b"PROXY TCP4 192.0.2.7 10.0.0.1\r\n".to_vec(),
            ProxyError::Malformed,
        ),
        (
            "PROXY TCP4 192.0.2.\u{661} 10.0.0.1 1 2\r\n"
                .as_bytes()
                .to_vec(),
            ProxyError::Malformed,
        ),
        (long_line, ProxyError::TooLong),
        (long, ProxyError::TooLong),
        // Addresses shorter than their family says.
        (binary(1, 0x21, &FROM_V4), ProxyError::Malformed),
        // UDP.
        (binary(1, 0x12, &FROM_V4), ProxyError::OtherProtocol),
    ];
    for (bytes, error) in table {
        assert_eq!(read(&bytes), Err(error), "{bytes:?}");
    }
}

// Section 2.1 of its specification: "in the range [0..65535] without heading zero".
#[test]
fn a_port_of_version_1_is_digits_without_leading_zeros() {
    let of = |addresses: &str, ports: &str| {
        let line = format!("PROXY {addresses} {ports}\r\n");
        read(line.as_bytes()).map(|header| header.is_some())
    };
    for addresses in ["TCP4 192.0.2.7 10.0.0.1", "TCP6 2001:db8::1 ::1"] {
        for ports in ["1 2", "0 0", "65535 65535", "10 20"] {
            assert_eq!(of(addresses, ports), Ok(true), "{ports}");
        }
        for port in ["+1", "-1", "01", "00", "65536", "1x", " 1", ""] {
            for ports in [format!("{port} 2"), format!("2 {port}")] {
                let seen = of(addresses, &ports);
                assert_eq!(seen, Err(ProxyError::Malformed), "{addresses} {ports}");
            }
        }
    }
    assert_eq!(of("UNKNOWN", "ffff::1 ::1 +1 x"), Ok(true), "not looked at");
}

proptest! {
    #[test]
    fn any_bytes_have_an_answer(
        start in prop::sample::select(vec![&b""[..], b"PROXY ", b"PROXY TCP4 ", v2::PROTOCOL_PREFIX]),
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = [start, &rest].concat();
        if let Ok(Some(header)) = read(&bytes) {
            prop_assert!(header.length <= bytes.len());
            // The answer does not depend on how much of what follows is here.
            prop_assert_eq!(read(&bytes[..header.length]), Ok(Some(header)));
        }
    }
}
