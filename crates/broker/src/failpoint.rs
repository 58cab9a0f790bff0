//! Faults that tests plant; nothing in a broker that is not a unit test of this crate.

/// Panics where a front works on `data`, if a test wants it.
#[inline(always)]
pub(crate) fn in_front(data: &[u8]) {
    #[cfg(test)]
    hit(data, "failpoint: front");
    let _ = data;
}

/// Panics where the front of `client_id` gets a delivery, if a test wants it.
#[inline(always)]
pub(crate) fn in_delivery(client_id: &str) {
    #[cfg(test)]
    hit(client_id.as_bytes(), "failpoint: delivery");
    let _ = client_id;
}

/// Panics where a partition takes a publish, if a test wants it.
#[inline(always)]
pub(crate) fn in_partition(payload: &[u8]) {
    #[cfg(test)]
    hit(payload, "failpoint: partition");
    let _ = payload;
}

/// Panics where a partition applies an entry, if a test wants it.
#[inline(always)]
pub(crate) fn in_apply(entry: &[u8]) {
    #[cfg(test)]
    hit(entry, "failpoint: apply");
    let _ = entry;
}

#[cfg(test)]
fn hit(data: &[u8], mark: &str) {
    let planted = data
        .windows(mark.len())
        .any(|window| window == mark.as_bytes());
    assert!(!planted, "a fault that a test has planted");
}
