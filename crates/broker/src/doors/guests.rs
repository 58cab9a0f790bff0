//! Connections at once by address, where there is a limit.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

/// Bits of an IPv6 address that count: whoever has one address has all 2^64 of its network.
const V6_BITS: u32 = 64;

/// Counts of one listener. The lock is taken when a connection comes and when it goes.
#[derive(Debug)]
pub(crate) struct Guests {
    most: u32,
    counts: Mutex<HashMap<IpAddr, u32>>,
}

/// One connection that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    guests: Arc<Guests>,
    address: IpAddr,
}

impl Guests {
    /// At most `most` connections from one address.
    #[must_use]
    pub(crate) fn new(most: NonZeroU32) -> Arc<Self> {
        Arc::new(Self {
            most: most.get(),
            counts: Mutex::default(),
        })
    }

    /// Counts one more; None when there are as many as may be.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Guest> {
        let address = shared(address);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_insert(0);
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(Guest {
            guests: Arc::clone(self),
            address,
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut counts = self
            .guests
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// The address under which connections are counted together.
pub(super) fn shared(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let mask = u128::MAX << (Ipv6Addr::BITS - V6_BITS);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections_and_no_more_until_one_goes() {
        let guests = Guests::new(NonZeroU32::new(2).expect("a limit"));
        let from = |text: &str| guests.enter(text.parse().expect("an address"));
        let (first, second) = (from("192.0.2.1"), from("::ffff:192.0.2.1"));
        assert!(first.is_some() && second.is_some());
        assert!(from("192.0.2.1").is_none());
        assert!(from("192.0.2.2").is_some());
        drop(first);
        let third = from("192.0.2.1");
        assert!(third.is_some());
        let (one, other) = (from("2001:db8::1"), from("2001:db8::2"));
        assert!(one.is_some() && other.is_some());
        assert!(from("2001:db8::ffff:3").is_none());
        assert!(from("2001:db8:0:1::1").is_some());
        drop((second, third, one, other));
        let counts = guests.counts.lock().expect("no test panics with it");
        assert!(counts.is_empty(), "who has gone costs nothing: {counts:?}");
    }
}
