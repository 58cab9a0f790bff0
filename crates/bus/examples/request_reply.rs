//! A request carries the key for its answer; the answer comes through a ring. `cargo run --example request_reply`
#![allow(clippy::print_stdout)]

use courser_router::{Key, Overflow, RingOptions, Router};
use std::time::Duration;

#[derive(Clone)]
enum Message {
    Request { number: u64, reply_to: Key },
    Reply(u64),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let router: Router<Message> = Router::new();

    // The server takes requests out of a ring on a thread of its own. When it is full, requesters wait.
    let requests = router.subscribe_ring("math/square", RingOptions::new(64, Overflow::Block))?;
    let answers = router.clone();
    let server = std::thread::spawn(move || {
        while let Some((_, message)) = requests.recv_timeout(Duration::from_millis(500)) {
            match message {
                Message::Request { number, reply_to } => {
                    answers.post(&reply_to, &Message::Reply(number * number))
                }
                Message::Reply(_) => unreachable!("nobody replies to math/square"),
            }
        }
    });

    let clients: Vec<_> = (1..=3u64)
        .map(|client| {
            let router = router.clone();
            std::thread::spawn(
                move || -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
                    let reply_to = router.key(&format!("reply/{client}"))?;
                    let replies = router
                        .subscribe_ring(reply_to.as_str(), RingOptions::new(4, Overflow::Block))?;
                    let request = router.key("math/square")?;
                    let mut sum = 0;
                    for number in 1..=100 {
                        router.post(
                            &request,
                            &Message::Request {
                                number,
                                reply_to: reply_to.clone(),
                            },
                        );
                        match replies.recv() {
                            (_, Message::Reply(square)) => sum += square,
                            (route, Message::Request { .. }) => {
                                unreachable!("a request at {route}")
                            }
                        }
                    }
                    Ok(sum)
                },
            )
        })
        .collect();
    for client in clients {
        let sum = client
            .join()
            .expect("a client does not panic")
            .map_err(|e| e.to_string())?;
        println!("sum of the squares: {sum}");
        assert_eq!(sum, 338_350);
    }
    server.join().expect("the server does not panic");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
