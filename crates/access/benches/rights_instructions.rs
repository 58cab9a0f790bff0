//! Instruction counts of access decisions: `cargo bench -p courser-access --bench rights_instructions` (needs valgrind and
//! gungraun-runner).
#![allow(missing_docs)] // the macros make undocumented items

mod device;

use std::hint::black_box;

use courser_access::{Rights, Verdict};
use device::rights;
use gungraun::prelude::*;

const TOPIC: &str = "org/r3/s7/device-12/temperature";

fn asked() -> Rights {
    let mut rights = rights();
    for number in 0..8 {
        rights.may_publish(&format!("org/r3/s7/device-12/{number}"));
    }
    rights.may_publish(TOPIC);
    rights
}

#[library_benchmark]
#[bench::asked_before(asked())]
#[bench::four_rules(rights())]
fn may_publish(mut rights: Rights) -> (Verdict, Rights) {
    let verdict = rights.may_publish(black_box(TOPIC));
    // Handed back, so that freeing it is not counted.
    (verdict, rights)
}

library_benchmark_group!(name = access, benchmarks = [may_publish]);
main!(library_benchmark_groups = access);
