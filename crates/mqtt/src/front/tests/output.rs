//! The output and its pool.

use std::rc::Rc;

use bytes::Bytes;
use proptest::prelude::*;

use crate::front::{Output, OutputPool};

fn contents(output: &Output) -> Vec<u8> {
    output.slices().flatten().copied().collect()
}

#[test]
fn a_written_output_gives_its_buffer_back() {
    let pool = OutputPool::new(1 << 20);
    let mut output = Output::new(Rc::clone(&pool));
    output.buffer(10).extend_from_slice(b"0123456789");
    output.push_shared(Bytes::from_static(b"shared"));
    output.buffer(3).extend_from_slice(b"end");
    assert_eq!(output.len(), 19);
    assert_eq!(output.slices().count(), 3);
    output.advance(12);
    assert_eq!(contents(&output), b"aredend");
    output.advance(7);
    output.check();
    assert_eq!(pool.free_bytes(), 512);
    output.buffer(512);
    assert_eq!(pool.free_bytes(), 0, "the same buffer serves again");
}

#[test]
fn a_pool_that_is_trimmed_has_nothing_and_goes_on() {
    let pool = OutputPool::new(1 << 20);
    let mut outputs: Vec<Output> = (0..5).map(|_| Output::new(Rc::clone(&pool))).collect();
    for output in &mut outputs {
        output.buffer(1).push(1);
        output.push_shared(Bytes::from_static(b"shared"));
    }
    for output in &mut outputs[1..] {
        output.advance(7);
    }
    assert_eq!(pool.free_bytes(), 4 * 512);
    pool.trim();
    assert_eq!(pool.free_bytes(), 0);
    outputs[0].advance(7);
    outputs[0].check();
    assert_eq!(pool.free_bytes(), 512, "what was in use comes back");
}

#[test]
fn the_pool_is_bounded() {
    let pool = OutputPool::new(1024);
    let mut outputs: Vec<Output> = (0..5).map(|_| Output::new(Rc::clone(&pool))).collect();
    for output in &mut outputs {
        output.buffer(1).push(1);
    }
    for output in &mut outputs {
        output.advance(1);
    }
    assert_eq!(pool.free_bytes(), 1024);
    let mut large = Output::new(Rc::clone(&pool));
    large.buffer(1 << 20).push(1);
    large.advance(1);
    assert_eq!(pool.free_bytes(), 1024, "large buffers are not kept");
}

#[test]
fn a_full_pool_lets_go_of_sizes_that_are_no_longer_used() {
    let pool = OutputPool::new(8 * 1024);
    let mut outputs: Vec<Output> = (0..16).map(|_| Output::new(Rc::clone(&pool))).collect();
    for len in [500, 4000] {
        for output in outputs.iter_mut().take(8 * 1024 / len) {
            output.buffer(len).resize(len, 1);
        }
        for output in &mut outputs {
            output.advance(output.len());
            assert!(pool.free_bytes() <= 8 * 1024);
        }
    }
    let mut small = Output::new(Rc::clone(&pool));
    let free = pool.free_bytes();
    small.buffer(4000);
    assert_eq!(
        pool.free_bytes(),
        free - 4096,
        "one of the new size is there"
    );
}

#[test]
fn a_busy_output_takes_a_buffer_of_its_usual_size() {
    let pool = OutputPool::new(1 << 20);
    let mut output = Output::new(Rc::clone(&pool));
    for _ in 0..100 {
        output.buffer(100).extend_from_slice(&[0; 100]);
    }
    output.advance(10_000);
    assert!(output.buffer(1).capacity() >= 10_000);
}

#[test]
#[should_panic(expected = "only what was there can be written")]
fn more_than_there_is_cannot_be_written() {
    Output::new(OutputPool::new(0)).advance(1);
}

#[derive(Clone, Debug)]
enum Step {
    Own(usize),
    Shared(usize),
    Write(usize),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_usize..3000).prop_map(Step::Own),
        2 => (0_usize..3000).prop_map(Step::Shared),
        4 => (0_usize..6000).prop_map(Step::Write),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    /// Whatever is appended comes out once and in order, however the socket takes it.
    #[test]
    fn bytes_come_out_as_they_went_in(steps in prop::collection::vec(step(), 1..60)) {
        let pool = OutputPool::new(1 << 16);
        let mut output = Output::new(pool);
        let mut model: Vec<u8> = Vec::new();
        let mut next = 0_u8;
        let mut fresh = |len: usize| -> Vec<u8> {
            (0..len).map(|_| { next = next.wrapping_add(1); next }).collect()
        };
        for step in steps {
            match step {
                Step::Own(len) => {
                    let bytes = fresh(len);
                    output.buffer(len).extend_from_slice(&bytes);
                    model.extend(bytes);
                }
                Step::Shared(len) => {
                    let bytes = fresh(len);
                    output.push_shared(Bytes::copy_from_slice(&bytes));
                    model.extend(bytes);
                }
                Step::Write(len) => {
                    let len = len.min(model.len());
                    output.advance(len);
                    model.drain(..len);
                }
                Step::Clear => {
                    output.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(output.len(), model.len());
            prop_assert_eq!(contents(&output), model.clone());
            if !model.is_empty() || matches!(step, Step::Write(1..) | Step::Clear) {
                output.check();
            }
        }
    }
}
