//! Addresses with their ports, as servers listen on.

use std::net::{IpAddr, SocketAddr};

use super::{Json, Mismatch, Raw, Value, read_list, schema_of_texts, shown_list};

/// One address.
///
/// # Errors
/// What should stand there, by what is wrong.
fn parse(text: &str) -> Result<SocketAddr, &'static str> {
    let address: SocketAddr = text.parse().map_err(|_| expected(text))?;
    // A socket of IPv6 is for IPv6 alone.
    match address.ip().to_canonical().is_ipv6() == address.is_ipv6() {
        true => Ok(address),
        false => Err(
            "the IPv4 address itself, such as \"127.0.0.1:1883\" for \"[::ffff:127.0.0.1]:1883\"",
        ),
    }
}

fn expected(text: &str) -> &'static str {
    if text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
        return "brackets around an IPv6 address and a port behind it, such as \"[::1]:1883\"";
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let is_address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    match (host, is_number(port)) {
        _ if is_address(text) => "a port behind the address, such as \"127.0.0.1:1883\"",
        (_, true) if port.parse::<u16>().is_err() => {
            "a port of at most 65535, or 0 for one that is free"
        }
        ("", true) => {
            "an address before the port: \"127.0.0.1:PORT\" is this machine alone, \"0.0.0.0:PORT\" every address of it"
        }
        (host, true) if !is_address(host) => {
            "an address, since names are not looked up: \"127.0.0.1:PORT\" is this machine alone, \"0.0.0.0:PORT\" every address of it"
        }
        _ => "an address such as \"127.0.0.1:1883\" or \"[::1]:1883\"",
    }
}

impl Value for Vec<SocketAddr> {
    const KIND: &'static str = "list of addresses";
    const EXPECTS: &'static str =
        "a list of addresses such as [\"127.0.0.1:1883\", \"[::1]:1883\"]";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        let read = |text: &str| parse(text.trim()).map_err(Mismatch::Text);
        read_list(raw, expected(""), read)
    }

    fn show(&self) -> String {
        shown_list(self.iter().map(|address| format!("\"{address}\"")))
    }

    fn schema(_range: Option<&std::ops::RangeInclusive<Self>>) -> Json {
        schema_of_texts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_of_an_address_is_said() {
        for (text, says) in [
            ("1891", "an address before the port"),
            (":1891", "an address before the port"),
            ("localhost:1891", "names are not looked up"),
            ("broker.example:0", "names are not looked up"),
            ("127.0.0.1:80000", "at most 65535"),
            ("[::1]:99999999", "at most 65535"),
            ("80000", "at most 65535"),
            ("127.0.0.1", "a port behind the address"),
            ("[::1]", "a port behind the address"),
            ("::1", "brackets around"),
            ("::1:1883", "brackets around"),
            ("localhost", "an address such as"),
            ("127.0.0.1:x", "an address such as"),
            ("", "an address such as"),
            ("[::ffff:127.0.0.1]:0", "the IPv4 address itself"),
        ] {
            let found = parse(text).expect_err(text);
            assert!(found.contains(says), "{text}: {found}");
        }
        assert_eq!(parse("[::1]:0"), Ok("[::1]:0".parse().expect("one")));
    }
}
