//! One message to many: exact filters, wildcards, both spellings. `cargo run --example fan_out`
#![allow(clippy::print_stdout)]

use courser_router::Token::{Any, Is, Rest};
use courser_router::{Handler, Key, Router, SubscriptionRef};
use std::sync::atomic::{AtomicU64, Ordering};

struct Reading {
    celsius: f64,
}

/// A handler type of its own: all handlers of one type lie side by side and are called in one loop.
struct HotterThan(f64, AtomicU64);

impl Handler<Reading> for HotterThan {
    fn handle(&self, _: SubscriptionRef<'_, Reading>, route: &Key, reading: &Reading) {
        if reading.celsius > self.0 {
            let alarms = self.1.fetch_add(1, Ordering::Relaxed) + 1;
            println!("alarm {alarms}: {} °C at {route}", reading.celsius);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let router: Router<Reading> = Router::new();
    let _all = router.subscribe("building/#", |_, route, reading: &Reading| {
        println!("log: {route} {} °C", reading.celsius);
    })?;
    let _kitchens = router.subscribe(
        [Is("building"), Any, Is("kitchen"), Rest],
        |me, route, _: &Reading| {
            println!(
                "subscription {} is for kitchens: {:?}",
                me.id().get(),
                route.token(1)
            );
        },
    )?;
    let _alarms: Vec<_> = [30.0, 60.0, 90.0]
        .map(|limit| {
            router.subscribe_handler("building/+/kitchen", HotterThan(limit, AtomicU64::new(0)))
        })
        .into_iter()
        .collect::<Result<_, _>>()?;

    let kitchen = router.key("building/north/kitchen")?;
    let cellar = router.key("building/north/cellar")?;
    router.post(&kitchen, &Reading { celsius: 21.0 });
    router.post(&kitchen, &Reading { celsius: 75.0 });
    router.post(&cellar, &Reading { celsius: 12.0 });
    let stats = router.stats();
    println!("{} posts, {} calls", stats.posts, stats.hits);
    assert_eq!((stats.posts, stats.hits), (3, 3 + 2 + 6));
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
