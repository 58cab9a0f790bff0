//! Wall time of the fronts' data path, by hand: `cargo bench -p courser-mqtt --bench front_time`. Best of 200 turns.
#![allow(clippy::print_stdout)] // its output is its purpose

mod front_support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use courser_contract::QoS;
use front_support::{Bench, TURN, WINDOW};

const TURNS: usize = 200;

fn best(mut turn: impl FnMut() -> Duration) -> Duration {
    (0..TURNS).map(|_| turn()).min().expect("there are turns")
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn print(name: &str, time: Duration, messages: usize) {
    let nanoseconds = time.as_secs_f64() * 1e9 / messages as f64;
    println!("{name:44} {nanoseconds:6.1} ns");
}

fn main() {
    for (name, qos) in [
        ("PUBLISH QoS 0 in", QoS::AtMostOnce),
        ("PUBLISH QoS 1 in, PUBACK out", QoS::AtLeastOnce),
        (
            "PUBLISH QoS 2 in, PUBREC, PUBREL, PUBCOMP",
            QoS::ExactlyOnce,
        ),
    ] {
        let mut bench = Bench::new(1, qos);
        print(name, best(|| timed(|| bench.publish_turn())), TURN);
        black_box(&bench);
    }
    for receivers in [1, 50] {
        let mut bench = Bench::new(receivers, QoS::AtMostOnce);
        let time = best(|| timed(|| bench.deliver_turn()));
        let name = format!("delivery QoS 0, {receivers} receivers");
        print(&name, time, WINDOW * receivers);

        let mut bench = Bench::new(receivers, QoS::AtLeastOnce);
        let mut acks = Duration::MAX;
        let time = best(|| {
            let delivered = timed(|| bench.deliver_turn());
            acks = acks.min(timed(|| bench.puback_turn()));
            delivered
        });
        let name = format!("delivery QoS 1, {receivers} receivers");
        print(&name, time, WINDOW * receivers);
        print("PUBACK in", acks, WINDOW * receivers);
    }
}
