//! Networks: an address with the number of bits that count.

use super::{Json, Mismatch, Raw, Value, read_list, schema_of_texts, shown_list};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Bits before the IPv4 address in one of IPv6 that stands for it (RFC 4291, 2.5.5.2).
const MAPPED_BITS: u8 = 96;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is in it. An IPv4 address that came over IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let (mine, mine_bits) = number(self.address.to_canonical());
        let (theirs, theirs_bits) = number(address.to_canonical());
        // Of 32 or 128 bits, so many do not count.
        let free = u32::from(mine_bits.saturating_sub(self.bits));
        let differs = (mine ^ theirs).checked_shr(free).unwrap_or(0);
        mine_bits == theirs_bits && differs == 0
    }

    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits)),
            None => (text.trim().parse::<IpAddr>().ok()?, None),
        };
        let (_, most) = number(address);
        let bits = match bits {
            Some(bits) => bits.parse::<u8>().ok().filter(|bits| *bits <= most)?,
            None => most,
        };
        Self { address, bits }.canonical()
    }

    /// Of IPv4 addresses as IPv6 writes them the network of IPv4: such an address counts as IPv4. None: it has more than these in it.
    fn canonical(self) -> Option<Self> {
        match self.address.to_canonical() {
            address if address.is_ipv6() == self.address.is_ipv6() => Some(self),
            address => Some(Self {
                address,
                bits: self.bits.checked_sub(MAPPED_BITS)?,
            }),
        }
    }
}

/// An address as a number, and how many bits it has.
fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Value for Vec<Network> {
    const KIND: &'static str = "list of networks";
    const EXPECTS: &'static str =
        "a list of addresses or networks such as [\"10.0.0.0/8\", \"2001:db8::1\"]";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        let expects = "an address or a network such as \"10.0.0.0/8\" or \"2001:db8::1\"";
        read_list(raw, expects, |text| {
            Network::parse(text).ok_or(Mismatch::Kind)
        })
    }

    fn show(&self) -> String {
        shown_list(self.iter().map(|network| format!("\"{network}\"")))
    }

    fn schema(_range: Option<&RangeInclusive<Self>>) -> Json {
        schema_of_texts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_with_its_bits() {
        let table = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("10.1.2.3", "::ffff:10.1.2.3", true),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("::1", "::1", true),
            ("::ffff:10.0.0.0/104", "10.255.0.1", true),
            ("::ffff:10.0.0.0/104", "11.0.0.1", false),
            ("::ffff:10.1.2.3", "10.1.2.3", true),
            ("::ffff:10.1.2.3", "10.1.2.4", false),
        ];
        for (network, address, expected) in table {
            let network = Network::parse(network).expect("a network");
            let address = address.parse().expect("an address");
            assert_eq!(network.contains(address), expected, "{network} {address}");
        }
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "example.org",
            "10.0.0.0/-1",
            "1.2.3.4/",
            "::ffff:10.0.0.0/95",
        ] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
        let shown = Network::parse("::ffff:10.0.0.0/104").map(|it| it.to_string());
        assert_eq!(shown.as_deref(), Some("10.0.0.0/8"));
    }
}
