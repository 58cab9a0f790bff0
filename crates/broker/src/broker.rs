//! A running broker.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use courser_access::UserName;
use courser_contract::ShardId;
use courser_settings::{Keep, Listener, Settings};
use router::SharedMatcher;

use crate::access::{
    Access, BootstrapError, Denials, HashPool, Logins, Operators, Presence, Refusals, Secret,
    Throttle, TokenKeys, TokensError, take_bootstrap,
};
use crate::backup::{Backups, Source};
use crate::clock::Clock;
use crate::config::Config;
use crate::control::{Control, ControlParts, OpenListener};
use crate::doors::{
    self, Admission, CertificateError, DoorError, Doors, Inbox, OpenDoor, Reread, Telling, Watched,
};
use crate::faults::public_faults;
use crate::listen::{self, ListenError, Listeners, Plain};
use crate::live::Live;
use crate::memory::{MemoryBudget, MemoryError};
use crate::metrics::{CLOSES, DROPPED, dropped_name};
use crate::node::{DataFolder, FolderError};
use crate::peer::{Entrance, ListenerId};
use crate::repair::NodeState;
use crate::rings::{self, Doze};
use crate::scrub::Scrub;
use crate::shard::{self, Phase, ShardParts, StopSignal};
use crate::stations::{
    COUNTERS, DiskFailure, DiskPorts, DiskState, FoundInLog, Stage, Stations, StationsError,
};
use crate::sys::ShardReport;

/// How often a stop looks whether all shards are quiet.
const STOP_LOOK: Duration = Duration::from_millis(2);
/// How long a stop waits for wills while other clients may still publish.
const WILLS_MAX: Duration = Duration::from_secs(1);
/// How long a stop saves partitions: what it does not save, the next start applies.
const SAVES_MAX: Duration = Duration::from_secs(2);

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Certificates of a listener.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Keys of tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// Too little of it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The data folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The threads beside the shards.
    #[error(transparent)]
    Log(StationsError),
    /// The system has no random bytes.
    #[error("the system gives no random numbers")]
    Random(#[source] rand::rngs::SysError),
    /// A thread.
    #[error("cannot start a thread for a shard")]
    Thread(#[source] io::Error),
}

/// Why files that a broker reads again cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RereadError {
    /// Certificates of a listener.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Keys of tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
}

impl From<DoorError> for StartError {
    fn from(error: DoorError) -> Self {
        match error {
            DoorError::Listen(error) => Self::Listen(error),
            DoorError::Certificate(error) => Self::Certificate(error),
        }
    }
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
    /// The disk: what was not acknowledged before may be lost.
    #[error("{0}")]
    Disk(DiskFailure),
    /// A bug in the writer or the reader of the log: the message was printed when it happened.
    #[error("a thread of the log has panicked")]
    StationPanicked,
    /// A bug: the message was printed when it happened.
    #[error("shard {shard} has panicked")]
    Panicked {
        /// Which.
        shard: usize,
    },
}

/// What a broker has done, for the last line of its log.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    shards: ShardReport,
    /// What doors and stations counted, by name.
    beside: Vec<(&'static str, u64)>,
}

impl Summary {
    /// Counters that are not zero, by name. `allocations` are those of the shards' threads, in a binary that counts them.
    #[must_use]
    pub fn counters(&self) -> Vec<(String, u64)> {
        let counters = &self.shards.counters;
        let allocations = ("allocations", self.shards.allocations);
        let plain = counters.named().chain([allocations]);
        let closes = CLOSES
            .iter()
            .zip(counters.closes)
            .map(|(name, value)| (format!("closed_{name}"), value));
        let reasons = counters
            .reasons
            .iter()
            .map(|(code, value)| (format!("closed_with_{code:#04X}"), value));
        let dropped = DROPPED
            .iter()
            .zip(counters.dropped)
            .map(|(&why, value)| (format!("dropped_{}", dropped_name(why)), value));
        let beside = self.beside.iter();
        plain
            .map(|(name, value)| (name.to_owned(), value))
            .chain(closes)
            .chain(reasons)
            .chain(dropped)
            .chain(beside.map(|&(name, value)| (name.to_owned(), value)))
            .filter(|(_, value)| *value > 0)
            .collect()
    }
}

/// How far a broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It reads its log. Connections are accepted; CONNECT is answered with "server unavailable".
    Reading,
    /// It makes its partitions of what was read; the same for clients.
    Recovering,
    /// It serves.
    Serving,
    /// Its disk failed: nothing is acknowledged any more, and it is to be stopped.
    Failed(DiskFailure),
}

/// A broker that serves. Dropped without [`stop`](Self::stop) its threads go on until the process ends.
#[derive(Debug)]
pub struct Broker {
    live: Arc<Live>,
    addresses: Vec<SocketAddr>,
    open_doors: Vec<OpenDoor>,
    doors: Doors,
    /// Keys of tokens; none: no listener asks for tokens.
    token_keys: Option<Arc<TokenKeys>>,
    threads: Vec<JoinHandle<io::Result<ShardReport>>>,
    dozes: Vec<Arc<Doze>>,
    stop: Arc<StopSignal>,
    stop_timeout: Duration,
    logins: Arc<Logins>,
    kept: Option<Kept>,
    control: Control,
}

/// What there is besides the shards where messages are kept on a disk.
#[derive(Debug)]
struct Kept {
    stations: Stations,
    backups: Arc<Backups>,
    scrub: Scrub,
    /// Held until the last thread has ended.
    folder: DataFolder,
}

/// How far a broker with this disk is.
pub(crate) fn status_of(disk: Option<&DiskState>) -> Status {
    let Some(state) = disk else {
        return Status::Serving;
    };
    match (state.failure(), state.stage()) {
        (Some(failure), _) => Status::Failed(failure.clone()),
        (None, Stage::Reading) => Status::Reading,
        (None, Stage::Restoring | Stage::Replaying) => Status::Recovering,
        (None, Stage::Serving) => Status::Serving,
    }
}

/// Listens where shards accept connections themselves.
fn listen_plainly(config: &Config, entrances: &[Arc<Entrance>]) -> Result<Listeners, ListenError> {
    let own = |it: &Arc<Entrance>| Some((Arc::clone(it), it.id.own(&config.settings)?));
    let doors = entrances.iter().filter_map(own);
    let plain: Vec<(Arc<Entrance>, &Listener)> =
        doors.filter(|(_, it)| doors::is_plain(it)).collect();
    let named = plain.into_iter().map(|(entrance, it)| Plain {
        addresses: &it.address,
        entrance,
        change: listen::change_of(it),
    });
    let mqtt = entrances.iter().filter(|it| it.id == ListenerId::Mqtt);
    let mqtt = mqtt.map(|it| Plain::mqtt(&config.listen, Arc::clone(it)));
    let all: Vec<Plain<'_>> = mqtt.chain(named).collect();
    listen::listen(&all, config.shards)
}

/// Opens the data folder, unless everything is kept in memory. A folder that exists says how many partitions there are.
fn open_folder(config: &mut Config) -> Result<Option<DataFolder>, FolderError> {
    match config.settings.data.store {
        Keep::Memory => Ok(None),
        Keep::Disk => {
            let relaxed = config.wants_relaxed();
            let folder = DataFolder::open(&config.settings.data.path, config.partitions, relaxed)?;
            config.partitions = folder.node().partitions;
            config.relaxed = folder.node().relaxed;
            Ok(Some(folder))
        }
    }
}

/// What all shards need to let clients in.
fn make_logins(
    config: &Config,
    dozes: &[Arc<Doze>],
    tokens: Option<Arc<TokenKeys>>,
    folder: Option<&DataFolder>,
) -> Result<Logins, StartError> {
    let secret = Secret::draw().map_err(StartError::Random)?;
    let lasting = match folder {
        Some(folder) => Secret::of(folder.node().identity),
        None => Secret::draw().map_err(StartError::Random)?,
    };
    Ok(Logins {
        access: Arc::new(Access::new(
            dozes,
            config.process_limits(),
            config.room_of_accounts(),
        )),
        pool: HashPool::new(
            thread::available_parallelism().map_or(1, NonZero::get),
            config.memory_max,
        ),
        throttle: Throttle::new(config.memory_max, config.backoff()),
        presence: Presence::default(),
        refusals: Refusals::default(),
        denials: Denials::default(),
        tokens,
        secret,
        lasting,
    })
}

/// What keeps messages, before anybody can ask for it.
struct Disk {
    stations: Stations,
    backups: Arc<Backups>,
    folder: DataFolder,
}

/// Starts what keeps messages in `folder`; gives each shard its ways to it.
fn start_disk(
    folder: Option<DataFolder>,
    live: &Arc<Live>,
    dozes: &[Arc<Doze>],
) -> Result<(Option<Disk>, Vec<Option<DiskPorts>>), StartError> {
    let Some(folder) = folder else {
        return Ok((None, dozes.iter().map(|_| None).collect()));
    };
    let config = live.get();
    let (stations, ports) = Stations::start(&folder, &config, dozes).map_err(StartError::Log)?;
    let source = Source {
        door: stations.copy_door(),
        data: folder.path().to_owned(),
        folders: config.settings.backup.folders.clone(),
        node: folder.node().identity,
    };
    let disk = Disk {
        stations,
        backups: Arc::new(Backups::new(source, Arc::clone(live))),
        folder,
    };
    Ok((Some(disk), ports.into_iter().map(Some).collect()))
}

impl Disk {
    /// What operators are told of, and ask.
    fn known(&self) -> (Arc<DiskState>, Arc<Backups>) {
        (Arc::clone(self.stations.state()), Arc::clone(&self.backups))
    }

    /// Begins to check it.
    fn keep(self, control: &Control, live: &Arc<Live>) -> Result<Kept, StartError> {
        let door = self.stations.copy_door();
        let scrub = Scrub::start(&self.folder, door, control.clone(), Arc::clone(live));
        Ok(Kept {
            scrub: scrub.map_err(StartError::Thread)?,
            stations: self.stations,
            backups: self.backups,
            folder: self.folder,
        })
    }
}

impl Broker {
    /// Binds all addresses and starts all threads. When it returns, connections are accepted; sessions are as soon as
    /// [`status`](Self::status) says so, which without a disk is at once.
    ///
    /// # Errors
    /// [`StartError::Listen`] when an address cannot be bound, [`StartError::Folder`] when the data folder cannot be used,
    /// [`StartError::Log`] when its log cannot be: nothing is left running. [`StartError::Thread`] when the system gives no
    /// thread.
    pub fn start(mut config: Config) -> Result<Self, StartError> {
        let public = public_faults(&config.settings, config.anonymous);
        if let Some(error) = public.into_iter().next() {
            return Err(error.into());
        }
        config.check_memory()?;
        let folder = open_folder(&mut config)?;
        let config = Arc::new(config);
        let live = Arc::new(Live::new(Arc::clone(&config)));
        let entrances: Arc<[_]> = config.entrances().into();
        let listeners = listen_plainly(&config, &entrances)?;
        let doors = doors::bind(&live, &entrances)?;
        let tokens = TokenKeys::read(&config.settings)?;
        let token_keys = tokens.clone();
        let watched = tokens.clone().map(|keys| -> Arc<dyn Watched> { keys });
        let ports = rings::mesh(config.shards, config.ring_slots);
        let dozes = ports[0].dozes.clone();
        let inboxes: Arc<[_]> = dozes.iter().map(Inbox::new).collect();
        let stop = Arc::new(StopSignal::new(config.shards));
        let logins = Arc::new(make_logins(&config, &dozes, tokens, folder.as_ref())?);
        let clock = Clock::default();
        let connections = Arc::new(AtomicUsize::new(0));
        let memory = Arc::new(MemoryBudget::new(
            config.memory_max,
            config.scant().shares(),
            config.shards,
        ));
        let admission = Admission {
            live: Arc::clone(&live),
            connections: Arc::clone(&connections),
            memory: Arc::clone(&memory),
        };
        let open = OpenListener::all(&entrances, &listeners, &doors.open, &config);
        let open_doors = doors.open.clone();
        let doors = doors
            .start(&inboxes, admission, watched)
            .map_err(StartError::Thread)?;
        let (disk, disk_ports) = start_disk(folder, &live, &dozes)?;
        let control = Control::new(ControlParts {
            dozes: &dozes,
            places: config.places(),
            classes: &config.settings.classes,
            kept: disk.as_ref().map(Disk::known),
            operators: Operators::new(Arc::clone(&logins), clock),
            memory: Arc::clone(&memory),
            stop: Arc::clone(&stop),
            listeners: open,
            doors: &doors,
            live: Arc::clone(&live),
        });
        let kept = disk.map(|it| it.keep(&control, &live)).transpose()?;
        let start = kept.as_ref().map_or(1, |kept| kept.folder.node().start);
        let mut broker = Self {
            live,
            addresses: listeners.addresses,
            open_doors,
            token_keys,
            doors,
            threads: Vec::new(),
            control,
            logins: Arc::clone(&logins),
            dozes,
            stop,
            stop_timeout: config.stop_timeout,
            kept,
        };
        let (writer, reader) = SharedMatcher::new();
        let mut writer = Some(writer);
        let shards = ports.into_iter().zip(listeners.by_shard).zip(disk_ports);
        for (id, ((ports, listeners), disk)) in (0..).map(ShardId).zip(shards) {
            broker.start_shard(ShardParts {
                id,
                config: Arc::clone(&config),
                live: Arc::clone(&broker.live),
                entrances: Arc::clone(&entrances),
                memory: Arc::clone(&memory),
                clock,
                ports,
                listeners,
                inboxes: Arc::clone(&inboxes),
                reader: reader.clone(),
                writer: writer.take(),
                connections: Arc::clone(&connections),
                stop: Arc::clone(&broker.stop),
                desk: broker.control.desk(id),
                start,
                logins: Arc::clone(&logins),
                disk,
            })?;
        }
        Ok(broker)
    }

    fn start_shard(&mut self, parts: ShardParts) -> Result<(), StartError> {
        let thread = thread::Builder::new()
            .name(format!("shard-{}", parts.id.0))
            .spawn(move || shard::run(parts));
        match thread {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.enter(Phase::Ending);
                Err(StartError::Thread(error))
            }
        }
    }

    /// How far it is. Cheap: a few loads.
    #[must_use]
    pub fn status(&self) -> Status {
        self.control.status()
    }

    /// Asks the shards, from wherever.
    #[must_use]
    pub const fn control(&self) -> &Control {
        &self.control
    }

    /// Users and roles: to look at and to change.
    #[must_use]
    pub fn access(&self) -> &Arc<Access> {
        &self.logins.access
    }

    /// Takes the accounts that `courser init` left in the data folder; to be called once it serves. Who they are. Blocks.
    ///
    /// # Errors
    /// [`BootstrapError`]; the accounts are not there then, and nobody comes in by them.
    pub fn take_bootstrap(&self) -> Result<Vec<UserName>, BootstrapError> {
        match &self.kept {
            Some(kept) => take_bootstrap(kept.folder.path(), self.access()),
            None => Ok(Vec::new()),
        }
    }

    /// What was found on the disk at the start, for people. None before the log is read, and where nothing is kept.
    #[must_use]
    pub fn recovered(&self) -> Option<&FoundInLog> {
        self.kept.as_ref()?.stations.state().found()
    }

    /// Gives it other settings while it runs: each shard takes them at its next turn, which is at once. Values that need a
    /// restart must be those of the start ([`Settings::adopt`]). Connections that are there stay, with what they were told.
    pub fn reconfigure(&self, settings: Settings) {
        let config = self.live.get().with(settings);
        // First: shards take the table that has them with the settings.
        self.logins.access.set_process(config.process_limits());
        self.logins.throttle.set_backoff(config.backoff());
        self.live.set(Arc::new(config));
        for doze in &self.dozes {
            doze.wake();
        }
    }

    /// Which partitions are set aside, which streams have stopped at records that the disk has lost, and what of that was
    /// accepted at this start. Complete once the broker serves; nothing where nothing is kept.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.control.damage()
    }

    /// Where it listens, with the ports that were chosen.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Doors that are open besides [`addresses`](Self::addresses): listeners with TLS, WebSocket, a proxy or a Unix socket.
    #[must_use]
    pub fn doors(&self) -> &[OpenDoor] {
        &self.open_doors
    }

    /// Reads the certificates of all listeners and the keys of tokens again: the name of each listener with a certificate, and whether
    /// that is another one. Connections that are there keep what they have. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// The first file that cannot be used: then all of them stay as they are.
    pub fn reread_files(&self) -> Result<Vec<(String, Reread)>, RereadError> {
        let loaded = self.doors.load()?;
        if let Some(keys) = &self.token_keys {
            keys.reread_and_tell(Telling::All)?;
        }
        Ok(self.doors.take(loaded))
    }

    /// Listeners with the subjects of their certificates, and the seconds since 1970 until which these are valid.
    #[must_use]
    pub fn certificates(&self) -> Vec<(String, String, i64)> {
        self.doors.certificates()
    }

    /// Whether a thread has ended by itself, which only a failure makes.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|kept| kept.stations.has_failed())
            || self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Stops: v5 clients get DISCONNECT 0x8B, wills go out, outputs are written, for at most [`Config::stop_timeout`]; then
    /// partitions with much to apply at the next start are saved, for at most two seconds, and what was written is synced.
    /// Blocks.
    ///
    /// # Errors
    /// [`StopError::Disk`] when the disk failed, else the first thread that failed.
    pub fn stop(mut self) -> Result<Summary, StopError> {
        if let Some(kept) = &self.kept {
            // Neither may hold up the shards, which they ask.
            kept.backups.stop();
            kept.scrub.stop();
        }
        self.step(Phase::Wills, self.stop_timeout.min(WILLS_MAX));
        self.doors.close();
        self.step(Phase::Closing, self.stop_timeout);
        if self.kept.is_some() {
            self.step(Phase::Saving, self.stop_timeout.min(SAVES_MAX));
        }
        self.enter(Phase::Ending);
        let mut sum = Ok(ShardReport::default());
        for (shard, thread) in self.threads.into_iter().enumerate() {
            let report = match thread.join() {
                Ok(report) => report.map_err(|source| StopError::Shard { shard, source }),
                Err(_) => Err(StopError::Panicked { shard }),
            };
            match (&mut sum, report) {
                (Ok(sum), Ok(report)) => sum.add(&report),
                (Ok(_), Err(error)) => sum = Err(error),
                (Err(_), _) => {}
            }
        }
        let mut beside = self.doors.counted();
        // Whatever became of the shards: nobody else may have the folder before the log has been written to its end.
        let disk = match self.kept.take() {
            Some(kept) => end_stations(kept),
            None => Ok(Vec::new()),
        };
        Ok(Summary {
            shards: sum?,
            beside: {
                beside.extend(disk?);
                beside
            },
        })
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

/// Waits for the stations' own end, which is a last sync.
fn end_stations(kept: Kept) -> Result<Vec<(&'static str, u64)>, StopError> {
    let state = Arc::clone(kept.stations.state());
    kept.backups.end();
    kept.scrub.end();
    let joined = kept.stations.join();
    // Only now may another process have the folder.
    drop(kept.folder);
    match state.failure() {
        Some(failure) => Err(StopError::Disk(failure.clone())),
        None if joined => Ok(COUNTERS.into_iter().zip(state.counted()).collect()),
        None => Err(StopError::StationPanicked),
    }
}
