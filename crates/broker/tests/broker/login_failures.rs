//! What failed logins cost their address is what the settings say, also those of a broker that runs.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use courser_broker::Broker;
use courser_settings::{Settings, Sources};

use crate::support::accounts::{ACCOUNTS, Hello, with_anna};
use crate::support::wait;

const RIGHT: u8 = 0;
const BAD: u8 = 0x86;
const WAITS: u8 = 0x9F;
/// Longer than any test.
const AN_HOUR: [&str; 2] = ["login_failures.wait_first=1h", "login_failures.wait_max=1h"];

fn settings(changes: &[&str]) -> Settings {
    let start = ["mqtt.listen=127.0.0.1:0", "data.store=memory", ACCOUNTS];
    let sources = start.iter().chain(changes);
    let sources = sources.fold(Sources::new(), |sources, change| sources.set(change));
    sources.check().expect("the settings of a test are right")
}

struct Door {
    broker: Broker,
    address: SocketAddr,
}

impl Door {
    fn with(changes: &[&str]) -> Self {
        let (broker, address) = with_anna(1, &["allow all #"]);
        let door = Self { broker, address };
        door.set(changes);
        door
    }

    fn set(&self, changes: &[&str]) {
        self.broker.reconfigure(settings(changes));
    }

    fn code(&self, password: &str) -> u8 {
        let hello = Hello {
            login: Some(("anna", password)),
            ..Hello::default()
        };
        hello.code(self.address)
    }

    /// So many guesses are looked at.
    fn fail(&self, times: u32) {
        for guess in 0..times {
            assert_eq!(self.code(&format!("guess-{guess}")), BAD);
        }
    }

    fn end(self) {
        self.broker.stop().expect("nothing failed");
    }
}

#[test]
fn how_many_failures_are_free() {
    let door = Door::with(&[&AN_HOUR[..], &["login_failures.address_max=2"]].concat());
    door.fail(2);
    assert_eq!(door.code("secret"), WAITS);
    door.set(&[&AN_HOUR[..], &["login_failures.address_max=4"]].concat());
    door.fail(2);
    assert_eq!(door.code("secret"), WAITS);
    door.set(&[&AN_HOUR[..], &["login_failures.address_max=0"]].concat());
    assert_eq!(door.code("secret"), RIGHT);
    door.fail(7);
    assert_eq!(door.code("secret"), RIGHT);
    door.end();
}

#[test]
fn how_long_the_first_wait_is_and_the_longest() {
    for shorter in [
        "login_failures.wait_first=100ms",
        "login_failures.wait_max=100ms",
    ] {
        let door = Door::with(&AN_HOUR);
        door.fail(5);
        assert_eq!(door.code("secret"), WAITS);
        door.set(&[&AN_HOUR[..], &[shorter]].concat());
        wait("the wait that had begun is over", || {
            door.code("secret") == RIGHT
        });
        door.end();
    }
}

#[test]
fn when_failures_are_forgotten() {
    let door = Door::with(&AN_HOUR);
    door.fail(4);
    door.set(&[&AN_HOUR[..], &["login_failures.forget_after=1s"]].concat());
    thread::sleep(Duration::from_millis(1_100));
    door.fail(4);
    assert_eq!(door.code("secret"), RIGHT);
    door.fail(1);
    assert_eq!(door.code("secret"), WAITS);
    door.end();
}
