//! Instruction counts of a post: `cargo bench -p courser-router --bench post_instructions` (needs valgrind and
//! gungraun-runner).
#![allow(missing_docs)] // the macros make undocumented items

#[path = "router/workload.rs"]
#[allow(dead_code)] // the timed benchmark uses the rest
mod workload;

use courser_router::{Key, Router};
use gungraun::prelude::*;
use std::hint::black_box;
use workload::{Message, Shape, fixed_key, router, specs};

struct Ready {
    router: Router<Message>,
    key: Key,
    message: Message,
}

/// A router with the fixed workload, and its key, which has been posted to before.
fn ready(subscribers: u64, shape: Shape) -> Ready {
    let router = router(&specs(subscribers, shape));
    let key = fixed_key(&router);
    let message = Message::default();
    router.post(&key, &message);
    Ready {
        router,
        key,
        message,
    }
}

#[library_benchmark]
#[bench::one_hit(ready(10, Shape::Mono))]
#[bench::hits_15_of_one_type(ready(100, Shape::Mono))]
#[bench::hits_15_of_eight_types(ready(100, Shape::Mega))]
#[bench::hits_156_of_one_type(ready(1_000, Shape::Mono))]
#[bench::hits_156_of_eight_types(ready(1_000, Shape::Mega))]
fn post(ready: Ready) -> Ready {
    ready
        .router
        .post(black_box(&ready.key), black_box(&ready.message));
    // Handed back, so that freeing it is not counted.
    ready
}

/// A key that the thread has not posted to: matched, planned, called.
fn unknown(subscribers: u64, shape: Shape) -> Ready {
    let mut ready = ready(subscribers, shape);
    ready.key = Key::new("root/b1/c2").expect("a valid key");
    ready
}

#[library_benchmark]
#[bench::subscribers_100(unknown(100, Shape::Mega))]
#[bench::subscribers_10000(unknown(10_000, Shape::Mega))]
fn first_post(ready: Ready) -> Ready {
    ready
        .router
        .post(black_box(&ready.key), black_box(&ready.message));
    ready
}

library_benchmark_group!(name = posts, benchmarks = [post, first_post]);
main!(library_benchmark_groups = posts);
