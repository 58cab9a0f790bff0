//! A running broker.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use courser_contract::ShardId;
use courser_settings::Keep;
use router::SharedMatcher;

use crate::clock::Clock;
use crate::config::Config;
use crate::listen::{self, ListenError};
use crate::metrics::{CLOSES, DROPPED, dropped_name};
use crate::node::{DataFolder, FolderError};
use crate::rings::{self, Doze};
use crate::shard::{self, Phase, ShardParts, StopSignal};
use crate::sys::ShardReport;

/// How often a stop looks whether all shards are quiet.
const STOP_LOOK: Duration = Duration::from_millis(2);
/// How long a stop waits for wills while other clients may still publish.
const WILLS_MAX: Duration = Duration::from_secs(1);

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The data folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A thread.
    #[error("cannot start a thread for a shard")]
    Thread(#[source] io::Error),
}

/// Why a broker did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// A runtime or a listener failed.
    #[error("shard {shard} could not run")]
    Shard {
        /// Which.
        shard: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A bug: the message was printed when it happened.
    #[error("shard {shard} has panicked")]
    Panicked {
        /// Which.
        shard: usize,
    },
}

/// What a broker has done, for the last line of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary(ShardReport);

impl Summary {
    /// Counters that are not zero, by name. `allocations` are those of the shards' threads, in a binary that counts them.
    #[must_use]
    pub fn counters(&self) -> Vec<(String, u64)> {
        let counters = &self.0.counters;
        let plain = [
            ("sockets", counters.sockets),
            ("sessions_attached", counters.connects),
            ("connections_over_limit", counters.over_limit),
            ("accept_failures", counters.accept_failures),
            ("bytes_received", counters.bytes_received),
            ("bytes_sent", counters.bytes_sent),
            ("packets_received", counters.packets_received),
            ("packets_sent", counters.packets_sent),
            ("publishes_received", counters.publishes_received),
            ("publishes_sent", counters.publishes_sent),
            ("publishers_slowed", counters.publishers_slowed),
            ("turns", counters.turns),
            ("longest_turn_us", counters.longest_turn_us),
            ("allocations", self.0.allocations),
        ];
        let plain = plain.map(|(name, value)| (name.to_owned(), value));
        let closes = CLOSES
            .iter()
            .zip(counters.closes)
            .map(|(name, value)| (format!("closed_{name}"), value));
        let dropped = DROPPED
            .iter()
            .zip(counters.dropped)
            .map(|(&why, value)| (format!("dropped_{}", dropped_name(why)), value));
        plain
            .into_iter()
            .chain(closes)
            .chain(dropped)
            .filter(|(_, value)| *value > 0)
            .collect()
    }
}

/// A broker that serves. Dropped without [`stop`](Self::stop) its threads go on until the process ends.
#[derive(Debug)]
pub struct Broker {
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<io::Result<ShardReport>>>,
    dozes: Vec<Arc<Doze>>,
    stop: Arc<StopSignal>,
    stop_timeout: Duration,
    /// Held until the last thread has ended.
    _folder: Option<DataFolder>,
}

/// Opens the data folder, unless everything is kept in memory. A folder that exists says how many partitions there are.
fn open_folder(config: &mut Config) -> Result<Option<DataFolder>, FolderError> {
    match config.settings.data.store {
        Keep::Memory => Ok(None),
        Keep::Disk => {
            let folder = DataFolder::open(&config.settings.data.path, config.partitions)?;
            config.partitions = folder.node().partitions;
            Ok(Some(folder))
        }
    }
}

impl Broker {
    /// Binds all addresses and starts the shards. When it returns, connections are accepted.
    ///
    /// # Errors
    /// [`StartError::Listen`] when an address cannot be bound, [`StartError::Folder`] when the data folder cannot be used:
    /// nothing is left running. [`StartError::Thread`] when the system gives no thread.
    pub fn start(mut config: Config) -> Result<Self, StartError> {
        let folder = open_folder(&mut config)?;
        let listeners = listen::listen(&config.listen, config.shards)?;
        let ports = rings::mesh(config.shards, config.ring_slots);
        let dozes = ports[0].dozes.clone();
        let (writer, reader) = SharedMatcher::new();
        let mut broker = Self {
            addresses: listeners.addresses,
            threads: Vec::new(),
            dozes,
            stop: Arc::new(StopSignal::new(config.shards)),
            stop_timeout: config.stop_timeout,
            _folder: folder,
        };
        let start = broker
            ._folder
            .as_ref()
            .map_or(1, |folder| folder.node().start);
        let (clock, connections) = (Clock::default(), Arc::new(AtomicUsize::new(0)));
        let (config, mut writer) = (Arc::new(config), Some(writer));
        for ((id, ports), listeners) in (0..).map(ShardId).zip(ports).zip(listeners.by_shard) {
            let parts = ShardParts {
                id,
                config: Arc::clone(&config),
                clock,
                ports,
                listeners,
                reader: reader.clone(),
                writer: writer.take(),
                connections: Arc::clone(&connections),
                stop: Arc::clone(&broker.stop),
                start,
            };
            let thread = thread::Builder::new()
                .name(format!("shard-{}", id.0))
                .spawn(move || shard::run(parts));
            match thread {
                Ok(thread) => broker.threads.push(thread),
                Err(error) => {
                    broker.enter(Phase::Ending);
                    return Err(StartError::Thread(error));
                }
            }
        }
        Ok(broker)
    }

    /// Where it listens, with the ports that were chosen.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Whether a shard has ended by itself, which only a failure makes.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Stops: v5 clients get DISCONNECT 0x8B, wills go out, outputs are written, for at most [`Config::stop_timeout`]. Blocks.
    ///
    /// # Errors
    /// The first shard that failed.
    pub fn stop(self) -> Result<Summary, StopError> {
        self.step(Phase::Wills, self.stop_timeout.min(WILLS_MAX));
        self.step(Phase::Closing, self.stop_timeout);
        self.enter(Phase::Ending);
        let mut sum = ShardReport::default();
        for (shard, thread) in self.threads.into_iter().enumerate() {
            let report = thread.join().map_err(|_| StopError::Panicked { shard })?;
            sum.add(&report.map_err(|source| StopError::Shard { shard, source })?);
        }
        Ok(Summary(sum))
    }

    /// Begins a step of the stop and waits until it is over.
    fn step(&self, phase: Phase, limit: Duration) {
        self.enter(phase);
        let deadline = Instant::now() + limit;
        let mut before = None;
        while Instant::now() < deadline && !self.has_failed() {
            thread::sleep(STOP_LOOK);
            let now = self.stop.all_quiet();
            if now.is_some() && now == before {
                return;
            }
            before = now;
        }
    }

    fn enter(&self, phase: Phase) {
        self.stop.set_phase(phase);
        for doze in &self.dozes {
            doze.wake();
        }
    }
}
