//! Messages as an asynchronous stream; any runtime will do, so this brings the smallest. `cargo run --example
//! async_stream`
#![allow(clippy::print_stdout)]

use courser_router::{Overflow, RingOptions, Router};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Runs one future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let router: Router<u32> = Router::new();
    // Of each stock only the last price matters: a later one takes the place of the one that waits.
    let mut prices =
        router.subscribe_stream("price/+", RingOptions::new(16, Overflow::Coalesce))?;

    let market = router.clone();
    let ticker = std::thread::spawn(move || {
        let stocks = ["price/ibm", "price/sun", "price/dec"]
            .map(|key| market.key(key).expect("a valid key"));
        for tick in 0..=1_000 {
            stocks.iter().for_each(|stock| market.post(stock, &tick));
        }
    });
    let seen = block_on(async {
        let (mut seen, mut closed) = (0, 0);
        while closed < 3 {
            let (stock, price) = prices.recv().await;
            seen += 1;
            if price == 1_000 {
                println!("{stock} closes at {price}");
                closed += 1;
            }
        }
        seen
    });
    ticker.join().expect("the ticker does not panic");
    println!("{seen} of 3,003 prices were looked at");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
