use super::{BLOCK_BYTES, Buffer, CLASS_BYTES, Detached, PoolLimits, ReceivePool};
use proptest::prelude::*;

fn pool() -> ReceivePool {
    ReceivePool::new(PoolLimits {
        blocks_max: 2,
        rests_max: 3,
    })
}

fn receive(buffer: &mut Buffer, mut bytes: &[u8]) -> usize {
    let count = bytes.len().min(buffer.room_mut().len());
    bytes = &bytes[..count];
    buffer.room_mut()[..count].copy_from_slice(bytes);
    buffer.advance(count);
    count
}

#[test]
fn an_idle_connection_holds_no_buffer() {
    let pool = pool();
    let mut buffer = pool.resume(None);
    assert_eq!(buffer.room_mut().len(), BLOCK_BYTES);
    receive(&mut buffer, b"whole packet");
    buffer.consume(12);
    assert!(buffer.settle().is_none());
    assert_eq!(pool.stats().in_use(), 0);
    assert_eq!(pool.stats().bytes_held(), BLOCK_BYTES);
    pool.check();
}

#[test]
fn blocks_are_used_again() {
    let pool = pool();
    for _ in 0..100 {
        drop(pool.take());
    }
    let blocks = pool.stats().classes[2];
    assert_eq!((blocks.allocated, blocks.reused, blocks.free), (1, 99, 1));
}

#[test]
fn a_rest_waits_in_the_smallest_size_that_holds_it() {
    for (rest_bytes, storage_bytes) in [
        (1, 512),
        (512, 512),
        (513, 4096),
        (4096, 4096),
        (4097, BLOCK_BYTES),
        (BLOCK_BYTES, BLOCK_BYTES),
    ] {
        let pool = pool();
        let mut buffer = pool.take();
        let sent: Vec<u8> = (0..rest_bytes).map(|at| (at % 251) as u8).collect();
        assert_eq!(receive(&mut buffer, &sent), rest_bytes);
        let rest = buffer.settle().expect("something is left");
        assert_eq!(rest.bytes(), sent, "rest of {rest_bytes} bytes");
        let class = CLASS_BYTES
            .iter()
            .position(|&bytes| bytes == storage_bytes)
            .expect("a class");
        assert_eq!(
            pool.stats().classes[class].in_use,
            1,
            "rest of {rest_bytes} bytes"
        );
        assert_eq!(pool.stats().in_use(), 1);
        pool.check();
    }
}

/// Thousands of clients that are in the middle of a packet must not hold a block each.
#[test]
fn a_rest_that_is_fitted_holds_no_more_than_twice_its_size_and_is_read_on() {
    for (rest_bytes, storage_bytes) in [
        (1, 512),
        (512, 512),
        (513, 513),
        (2048, 4096),
        (4096, 4096),
        (4097, 4097),
        (15_010, 15_010),
        (BLOCK_BYTES / 2, BLOCK_BYTES),
    ] {
        let pool = pool();
        let sent: Vec<u8> = (0..rest_bytes).map(|at| (at % 251) as u8).collect();
        let mut buffer = pool.take();
        buffer.advance(7);
        receive(&mut buffer, &sent);
        buffer.consume(7);
        let mut rest = buffer.settle().expect("something is left");
        pool.trim();
        rest.fit();
        rest.fit();
        pool.trim();
        assert_eq!(rest.bytes(), sent, "rest of {rest_bytes} bytes");
        let held = pool.stats().bytes_held();
        assert_eq!(held, storage_bytes, "rest of {rest_bytes} bytes");
        pool.check();
        let rest = rest.settle().expect("it is left");
        let mut buffer = pool.resume(Some(rest));
        assert_eq!(buffer.bytes(), sent);
        assert_eq!(buffer.room_mut().len(), BLOCK_BYTES - rest_bytes);
        pool.check();
        drop(buffer);
        assert_eq!(pool.stats().in_use(), 0);
        assert_eq!(pool.stats().odd_bytes, 0);
        pool.check();
    }
}

#[test]
fn a_small_rest_leaves_most_of_a_block_to_read_into() {
    let pool = pool();
    let mut buffer = pool.take();
    receive(&mut buffer, b"abc");
    let rest = buffer.settle();
    let mut buffer = pool.resume(rest);
    assert_eq!(buffer.room_mut().len(), BLOCK_BYTES - 3);
    receive(&mut buffer, b"def");
    assert_eq!(buffer.bytes(), b"abcdef");
    pool.check();
}

#[test]
fn free_lists_are_bounded() {
    let pool = pool();
    let buffers: Vec<Buffer> = (0..5).map(|_| pool.take()).collect();
    assert_eq!(pool.stats().in_use(), 5);
    drop(buffers);
    let blocks = pool.stats().classes[2];
    assert_eq!((blocks.free, blocks.freed, blocks.in_use), (2, 3, 0));
    pool.trim();
    assert_eq!(pool.stats().bytes_held(), 0);
    pool.check();
}

#[test]
fn a_packet_larger_than_a_block_grows_with_what_arrives_and_is_freed() {
    let pool = pool();
    let packet: Vec<u8> = (0..1_000_000_u32).map(|at| at as u8).collect();
    let mut rest = None;
    let mut sent = 0;
    while sent < packet.len() {
        let mut buffer = pool.resume(rest.take());
        sent += receive(&mut buffer, &packet[sent..]);
        assert!(
            pool.stats().bytes_held() <= 3 * sent + 2 * BLOCK_BYTES,
            "memory follows bytes received"
        );
        rest = buffer.settle();
    }
    let mut buffer = rest.expect("nothing was parsed yet");
    assert_eq!(buffer.bytes(), packet);
    buffer.consume(packet.len() - 10);
    let rest = buffer.settle().expect("ten bytes are left");
    assert_eq!(rest.bytes(), &packet[packet.len() - 10..]);
    assert_eq!((pool.stats().odd_in_use, pool.stats().odd_bytes), (0, 0));
    assert_eq!(pool.stats().classes[0].in_use, 1);
    pool.check();
}

#[test]
fn a_payload_can_leave_the_pool() {
    let pool = pool();
    let mut buffer = pool.take();
    receive(&mut buffer, b"head payload");
    buffer.consume(5);
    assert_eq!(buffer.into_vec(), b"payload");
    let blocks = pool.stats().classes[2];
    assert_eq!((blocks.in_use, blocks.free, blocks.freed), (0, 0, 1));
    pool.check();
}

#[test]
fn bytes_go_to_another_pool_without_a_copy() {
    let (from, to) = (pool(), pool());
    for len in [1, 512, 513, 5_000, 65_536, 100_000] {
        let mut buffer = from.resume(None);
        let bytes: Vec<u8> = (0..len + 3).map(|at| at as u8).collect();
        let mut sent = 0;
        while sent < bytes.len() {
            sent += receive(&mut buffer, &bytes[sent..]);
            buffer = from.resume(Some(buffer));
        }
        buffer.consume(3);
        let rest = buffer.settle().expect("not all is parsed");
        let at = rest.bytes().as_ptr();
        let moved = to.adopt(rest.detach()).expect("it has bytes");
        assert_eq!((moved.bytes(), moved.bytes().as_ptr()), (&bytes[3..], at));
        assert_eq!((from.stats().in_use(), to.stats().in_use()), (0, 1));
        drop(moved);
        assert_eq!(to.stats().in_use(), 0);
        from.check();
        to.check();
    }
}

#[test]
fn bytes_of_no_pool_are_taken_in_by_one() {
    let pool = pool();
    assert!(pool.adopt(Detached::default()).is_none());
    for len in [1, 512, 600, 70_000] {
        let mut bytes = Vec::with_capacity(len * 2);
        bytes.resize(len, 7);
        let held = pool.adopt(Detached::from(bytes)).expect("it has bytes");
        assert_eq!(held.bytes(), vec![7; len]);
        drop(held);
        pool.check();
    }
    assert_eq!(pool.stats().in_use(), 0);
}

#[test]
fn a_buffer_may_outlive_its_pool() {
    let mut buffer = pool().take();
    receive(&mut buffer, b"x");
    assert_eq!(buffer.bytes(), b"x");
}

#[test]
#[should_panic(expected = "a read fits the room that it was given")]
fn advancing_over_the_end_is_a_bug() {
    pool().take().advance(BLOCK_BYTES + 1);
}

#[test]
#[should_panic(expected = "only received bytes are parsed")]
fn consuming_what_was_not_received_is_a_bug() {
    let pool = pool();
    let mut buffer = pool.take();
    receive(&mut buffer, b"abc");
    buffer.consume(4);
}

#[derive(Debug, Clone)]
enum Step {
    /// Connection, bytes that arrive, thousandths of what is then held that are parsed.
    Turn(usize, usize, usize),
    Close(usize),
    Fit(usize),
    Trim,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..4_usize, 0..150_000_usize, 0..=1000_usize).prop_map(|(who, bytes, parsed)| Step::Turn(who, bytes, parsed)),
        1 => (0..4_usize).prop_map(Step::Close),
        2 => (0..4_usize).prop_map(Step::Fit),
        1 => Just(Step::Trim),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Four connections share a pool; each sees its own bytes in order, whatever the others do.
    #[test]
    fn every_connection_sees_its_own_bytes(steps in proptest::collection::vec(step(), 1..60)) {
        let pool = pool();
        let mut rests: [Option<Buffer>; 4] = Default::default();
        let mut models: [Vec<u8>; 4] = Default::default();
        let mut next: u8 = 0;
        for step in steps {
            match step {
                Step::Turn(who, bytes, parsed) => {
                    let mut buffer = pool.resume(rests[who].take());
                    let arrived: Vec<u8> = (0..bytes).map(|_| { next = next.wrapping_mul(5).wrapping_add(who as u8 + 1); next }).collect();
                    let count = receive(&mut buffer, &arrived);
                    prop_assert!(count > 0 || bytes == 0, "a resumed buffer has room");
                    models[who].extend_from_slice(&arrived[..count]);
                    prop_assert_eq!(buffer.bytes(), &models[who][..]);
                    let parsed = models[who].len() * parsed / 1000;
                    buffer.consume(parsed);
                    models[who].drain(..parsed);
                    rests[who] = buffer.settle();
                    prop_assert_eq!(rests[who].is_none(), models[who].is_empty());
                }
                Step::Close(who) => {
                    rests[who] = None;
                    models[who].clear();
                }
                Step::Fit(who) => {
                    if let Some(rest) = &mut rests[who] {
                        rest.fit();
                    }
                }
                Step::Trim => pool.trim(),
            }
            for (rest, model) in rests.iter().zip(&models) {
                prop_assert_eq!(rest.as_ref().map_or(&[][..], Buffer::bytes), &model[..]);
            }
            prop_assert_eq!(pool.stats().in_use(), rests.iter().flatten().count());
            pool.check();
        }
    }
}
