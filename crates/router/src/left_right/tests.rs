//! The protocol under loom: `crates/bus/loom.sh`.

use super::left_right;
use loom::thread;

/// A reader looks twice while the writer switches twice: loom's cell reports any look at a copy that is being
/// changed, and the pair of numbers shows any half-made change.
#[test]
fn loom_reader_never_sees_a_copy_in_change() {
    loom::model(|| {
        let (mut write, read) = left_right((0u32, 0u32), (0, 0));
        let reader = thread::spawn(move || {
            let mut last = 0;
            for _ in 0..2 {
                let (a, b) = read.read(|&pair| pair);
                assert_eq!(a, b, "a reader sees a whole state");
                assert!(a >= last, "states do not go back");
                last = a;
            }
        });
        for value in 1..=2 {
            while !write.drained() {
                thread::yield_now();
            }
            write.switch(|pair| *pair = (value, value));
            assert_eq!(*write.active(), (value, value));
        }
        reader.join().unwrap();
    });
}

/// What was switched before a look started is seen by it.
#[test]
fn loom_published_is_visible() {
    loom::model(|| {
        let (mut write, read) = left_right(0u32, 0u32);
        let second = write.reader();
        let reader = thread::spawn(move || second.read(|&value| value));
        write.switch(|value| *value = 1);
        assert_eq!(read.read(|&value| value), 1);
        drop(read);
        let seen = reader.join().unwrap();
        assert!(seen <= 1);
        assert!(write.drained(), "no reader is left");
    });
}

/// A reader that comes and goes while the writer switches.
#[test]
fn loom_reader_registers_during_switch() {
    loom::model(|| {
        let (mut write, read) = left_right(0u32, 0u32);
        let reader = thread::spawn(move || {
            let copy = read.clone();
            drop(read);
            copy.read(|&value| value)
        });
        write.switch(|value| *value = 1);
        while !write.drained() {
            thread::yield_now();
        }
        write.switch(|value| *value = 2);
        assert!(reader.join().unwrap() <= 2);
    });
}
