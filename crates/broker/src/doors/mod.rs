//! Doors: listeners whose connections need something done before they may speak MQTT.
//!
//! A plain TCP connection is accepted by its shard. Everything else (TLS, WebSocket, a PROXY header, Unix sockets, sockets of
//! systemd) is accepted here, on threads of its own, so that no handshake takes time of a shard's turn; once a connection may
//! speak MQTT it goes to a shard ([`Inbox`]) and never comes back.
//!
//! Bounds: no handshake begins for which there would be no room behind it ([`Admission`]); those under way on a thread have a number by the
//! memory of the process ([`HandshakesMax`]), a quarter of them from one address, behind a proxy from the one in its header; each
//! in `handshake_timeout` and 16 KiB.

mod admission;
mod arrivals;
mod bind;
mod certificates;
mod counters;
mod guests;
mod handshake;
mod inbox;
mod watch;
mod web;

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use courser_memory::{Component, Scope};
use courser_settings::{IdentityFrom as Setting, Listener, ListenerProtocol, Login, Settings};
use courser_transport::identity::IdentityFrom;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch as signal;

pub(crate) use self::admission::Admission;
use self::admission::HandshakesMax;
pub(crate) use self::arrivals::{Arrivals, Pace};
use self::bind::{Activated, Listening, SocketFiles};
pub(crate) use self::certificates::Certificates;
use self::certificates::Loaded;
pub use self::certificates::{CertificateError, Reread};
pub(crate) use self::counters::DoorCounters;
pub(crate) use self::guests::{Guest, Guests};
use self::handshake::{Entered, Refused, Socket, Steps};
pub(crate) use self::inbox::{Arrival, CameFrom, Inbox, LooseSocket};
use self::watch::Watch;
pub(crate) use self::watch::{Telling, Watched};
use self::web::Web;
use crate::config::Anonymous;
use crate::lines::Lines;
use crate::listen::{self, ListenError};
use crate::live::Live;
use crate::peer::{Entrance, ListenerId, NotNow, Peer};

/// How long a listener rests that had no descriptor or memory for a connection.
const REST: Duration = Duration::from_millis(100);
/// Cores for which one thread of doors is enough.
const CORES_PER_THREAD: usize = 4;
/// Most threads of doors.
const THREADS_MAX: usize = 4;

/// Why doors cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoorError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// A door that is open, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDoor {
    /// The listener's name.
    pub name: String,
    /// What is spoken below MQTT.
    pub protocol: ListenerProtocol,
    /// Address or path.
    pub place: String,
}

/// One listener.
#[derive(Debug)]
struct Door {
    entrance: Arc<Entrance>,
    steps: Steps,
    sockets: Vec<Listening>,
    /// Of connections that do not come in.
    lines: Lines,
}

impl Door {
    /// Whose connection does not come in, and in which lines that is told.
    fn told(&self) -> (&str, &Lines) {
        (&self.entrance.name, &self.lines)
    }
}

/// Doors that are bound, and whose certificates are read.
#[derive(Debug)]
pub(crate) struct BoundDoors {
    doors: Vec<Arc<Door>>,
    pub(crate) open: Vec<OpenDoor>,
    certificates: Vec<Arc<Certificates>>,
    files: SocketFiles,
}

/// Doors that let connections in.
#[derive(Debug)]
pub(crate) struct Doors {
    threads: Vec<JoinHandle<io::Result<()>>>,
    stop: signal::Sender<()>,
    counters: Arc<DoorCounters>,
    certificates: Vec<Arc<Certificates>>,
    _watch: Option<Watch>,
    _files: SocketFiles,
}

/// Whether the shards accept the connections of a listener themselves.
pub(crate) fn is_plain(listener: &Listener) -> bool {
    listener.protocol == ListenerProtocol::Mqtt
        && !listener.address.is_empty()
        && listener.proxies.is_empty()
}

/// Whether other machines may reach a listener: its clients prove who they are, or somebody has said that anyone may come.
pub(crate) fn may_be_public(
    settings: &Settings,
    listener: &Listener,
    anonymous: Anonymous,
) -> bool {
    settings.login_at(listener) != Login::None
        || listener.insecure_anonymous
        || anonymous == Anonymous::Anywhere
}

/// Reads all certificates and opens all sockets of the listeners that need doors.
///
/// # Errors
/// The first that fails; nothing is left open.
pub(crate) fn bind(live: &Arc<Live>, entrances: &[Arc<Entrance>]) -> Result<BoundDoors, DoorError> {
    let config = live.get();
    let mut bound = BoundDoors {
        doors: Vec::new(),
        open: Vec::new(),
        certificates: Vec::new(),
        files: SocketFiles::default(),
    };
    let own =
        |entrance: &Arc<Entrance>| Some((Arc::clone(entrance), entrance.id.own(&config.settings)?));
    let listeners = entrances.iter().filter_map(own);
    let listeners: Vec<(Arc<Entrance>, &Listener)> =
        listeners.filter(|(_, it)| !is_plain(it)).collect();
    if listeners.is_empty() {
        return Ok(bound);
    }
    let mut activated = Activated::from_environment();
    for (entrance, listener) in listeners {
        let certificates = Certificates::read(listener)?;
        let sockets = bind::bind(listener, &mut activated)?;
        if !may_be_public(&config.settings, listener, config.anonymous) {
            check_public(listener, &sockets)?;
        }
        bound.files.0.extend(listener.unix.clone());
        bound.open.extend(sockets.iter().map(|socket| OpenDoor {
            name: listener.name.clone(),
            protocol: listener.protocol,
            place: socket.place(),
        }));
        bound.certificates.extend(certificates.clone());
        bound.doors.push(Arc::new(Door {
            steps: steps(listener, certificates, entrance.id, live),
            entrance,
            sockets,
            lines: Lines::default(),
        }));
    }
    Ok(bound)
}

/// Sockets that systemd has opened have addresses that the settings do not say; so it is the sockets that are asked. All else has been
/// looked at before ([`public_faults`](crate::public_faults)).
fn check_public(listener: &Listener, sockets: &[Listening]) -> Result<(), ListenError> {
    match sockets.iter().find(|socket| socket.is_public()) {
        Some(socket) => Err(ListenError::Public {
            listener: listener.name.clone(),
            place: socket.place(),
            proven: listen::proven(listener),
        }),
        None => Ok(()),
    }
}

fn steps(
    listener: &Listener,
    certificates: Option<Arc<Certificates>>,
    id: ListenerId,
    live: &Arc<Live>,
) -> Steps {
    let is_web = listener.protocol.is_web();
    Steps {
        proxies: listener.proxies.clone(),
        certificates,
        web: is_web.then(|| Web::new(listener, id, live)),
        identity: match listener.identity {
            Setting::CommonName => IdentityFrom::CommonName,
            Setting::DnsName => IdentityFrom::DnsName,
            Setting::Email => IdentityFrom::Email,
            Setting::Uri => IdentityFrom::Uri,
            Setting::Fingerprint => IdentityFrom::Fingerprint,
        },
        timeout: listener.handshake_timeout,
    }
}

impl BoundDoors {
    /// Places that other machines may reach without proving who they are.
    pub(crate) fn is_empty(&self) -> bool {
        self.doors.is_empty()
    }

    /// Starts to let connections in, to the shards of `inboxes` in turn, and to watch the files of certificates and of `more`.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(crate) fn start(
        self,
        inboxes: &[Arc<Inbox>],
        admission: Admission,
        more: Option<Arc<dyn Watched>>,
    ) -> io::Result<Doors> {
        let (stop, stopped) = signal::channel(());
        let counters = Arc::new(DoorCounters::default());
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let count = if self.is_empty() {
            0
        } else {
            (cores / CORES_PER_THREAD).clamp(1, THREADS_MAX)
        };
        let next = Arc::new(AtomicUsize::new(0));
        let most = HandshakesMax::new(admission.live.get().memory_max, count);
        let admission = Arc::new(admission);
        let threads = (0..count).map(|number| {
            let room = Room {
                admission: Arc::clone(&admission),
                handshakes_max: most.at_once,
                doors: self.doors.clone(),
                inboxes: inboxes.to_vec(),
                next: Arc::clone(&next),
                counters: Arc::clone(&counters),
                handshakes: Cell::new(0),
                addresses: Guests::new(most.of_an_address),
            };
            let stopped = stopped.clone();
            thread::Builder::new()
                .name(format!("door-{number}"))
                .spawn(move || {
                    let _scope = Scope::enter(Component::Connections);
                    room.run(stopped)
                })
        });
        let watched = self.certificates.iter().cloned();
        let watched = watched.map(|one| -> Arc<dyn Watched> { one });
        Ok(Doors {
            threads: threads.collect::<io::Result<_>>()?,
            stop,
            counters,
            _watch: Watch::start(watched.chain(more).collect()),
            certificates: self.certificates,
            _files: self.files,
        })
    }
}

impl Doors {
    /// Takes no more connections, and ends handshakes.
    pub(crate) fn close(&mut self) {
        let _ = self.stop.send(());
        for thread in self.threads.drain(..) {
            // A door that failed has said so; what it let in is served.
            let _ = thread.join();
        }
    }

    /// Reads all certificates again. Nothing is served with them before [`take`](Self::take).
    pub(crate) fn load(&self) -> Result<Vec<Loaded>, CertificateError> {
        let load = |one: &Arc<Certificates>| {
            let loaded = one.load();
            loaded.inspect_err(|error| one.tell_refused(error))
        };
        self.certificates.iter().map(load).collect()
    }

    /// Serves new connections with what was loaded: the listener of each, and whether that is anything else.
    pub(crate) fn take(&self, loaded: Vec<Loaded>) -> Vec<(String, Reread)> {
        let all = self.certificates.iter().zip(loaded);
        all.map(|(one, loaded)| (one.listener().to_owned(), one.take(loaded)))
            .collect()
    }

    /// Those of all listeners that have one.
    pub(crate) fn all_certificates(&self) -> Vec<Arc<Certificates>> {
        self.certificates.clone()
    }

    /// Listeners with the subjects of their certificates and the seconds since 1970 until which these are valid.
    pub(crate) fn certificates(&self) -> Vec<(String, String, i64)> {
        let all = self.certificates.iter();
        all.map(|one| {
            let (subject, end) = one.facts();
            (one.listener().to_owned(), subject, end)
        })
        .collect()
    }

    /// What is counted while doors are open.
    pub(crate) fn counters(&self) -> &Arc<DoorCounters> {
        &self.counters
    }

    /// What was counted, by name.
    pub(crate) fn counted(&self) -> Vec<(&'static str, u64)> {
        self.counters.list()
    }
}

/// One thread of doors.
struct Room {
    doors: Vec<Arc<Door>>,
    inboxes: Vec<Arc<Inbox>>,
    /// The shard that gets the next connection.
    next: Arc<AtomicUsize>,
    counters: Arc<DoorCounters>,
    admission: Arc<Admission>,
    handshakes_max: usize,
    handshakes: Cell<usize>,
    addresses: Arc<Guests>,
}

/// What a connection holds of that which its address may have.
#[derive(Debug, Default)]
struct Shares {
    /// Among the handshakes under way, until they are over.
    _handshake: Option<Guest>,
    /// Among the connections, until it ends.
    connection: Option<Guest>,
}

/// A listening socket on the runtime.
enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    fn new(socket: Listening) -> io::Result<Self> {
        match socket {
            Listening::Tcp(socket) => TcpListener::from_std(socket).map(Self::Tcp),
            Listening::Unix(socket) => UnixListener::from_std(socket).map(Self::Unix),
        }
    }

    async fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, address) = socket.accept().await?;
                // A socket of systemd does not have it from its listener.
                stream.set_nodelay(true)?;
                Ok((Socket::Tcp(stream), Some(address)))
            }
            Self::Unix(socket) => {
                let (stream, _) = socket.accept().await?;
                Ok((Socket::Unix(stream), None))
            }
        }
    }
}

impl Room {
    fn run(self, mut stopped: signal::Receiver<()>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let room = Rc::new(self);
        let local = tokio::task::LocalSet::new();
        let result = local.block_on(&runtime, async {
            for door in &room.doors {
                for socket in &door.sockets {
                    let accepting = Accepting::new(socket.try_clone()?)?;
                    let (room, door) = (Rc::clone(&room), Arc::clone(door));
                    tokio::task::spawn_local(room.receive(door, accepting));
                }
            }
            // Sent or gone: both mean the end.
            let _ = stopped.changed().await;
            Ok(())
        });
        drop(local);
        room.counters.add_cpu();
        result
    }

    /// Accepts for as long as the thread runs.
    async fn receive(self: Rc<Self>, door: Arc<Door>, accepting: Accepting) {
        loop {
            match accepting.accept().await {
                Ok((socket, address)) => self.admit(&door, socket, address),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(event = "accept_failed", listener = &*door.entrance.name, %error, "cannot accept connections");
                    DoorCounters::count(&self.counters.accept_failures);
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    /// Begins the handshakes of one connection, if there is room for it.
    fn admit(self: &Rc<Self>, door: &Arc<Door>, socket: Socket, address: Option<SocketAddr>) {
        DoorCounters::count(&self.counters.accepted);
        let ip = address.map(|address| address.ip());
        if !door.steps.lets_in(ip) {
            return self
                .counters
                .refuse(door.told(), address, &Refused::NoProxy);
        }
        let is_full = self.handshakes.get() >= self.handshakes_max;
        if is_full || !self.admission.has_room(&door.entrance) {
            return DoorCounters::count(&self.counters.over_limit);
        }
        // Behind a proxy all have its address until the header is read.
        let is_behind = !door.steps.proxies.is_empty();
        let known = match is_behind {
            true => door.entrance.let_in(None).map(|_| Shares::default()),
            false => self.take_shares(ip, |ip| door.entrance.let_in(ip)),
        };
        let mut shares = match known {
            Ok(shares) => shares,
            Err(why) => return self.counters.not_now(why),
        };
        self.handshakes.set(self.handshakes.get() + 1);
        let (room, door) = (Rc::clone(self), Arc::clone(door));
        tokio::task::spawn_local(async move {
            let may_come = |ip| {
                shares = room.take_shares(ip, |ip| door.entrance.let_in_behind(ip))?;
                Ok(())
            };
            let entered = door.steps.enter(&socket, address, may_come).await;
            room.handshakes.set(room.handshakes.get() - 1);
            match entered {
                Ok(entered) => room.hand_over(&door, socket, entered, shares.connection),
                Err(refused) => room.counters.refuse(door.told(), address, &refused),
            }
        });
    }

    /// What a connection takes of that which its address may have.
    fn take_shares(
        &self,
        ip: Option<IpAddr>,
        let_in: impl FnOnce(Option<IpAddr>) -> Result<Option<Guest>, NotNow>,
    ) -> Result<Shares, NotNow> {
        let handshake = match ip {
            Some(ip) => Some(self.addresses.enter(ip).ok_or(NotNow::TooMany)?),
            None => None,
        };
        Ok(Shares {
            _handshake: handshake,
            connection: let_in(ip)?,
        })
    }

    /// Gives a connection to a shard.
    fn hand_over(&self, door: &Door, socket: Socket, entered: Entered, guest: Option<Guest>) {
        // A socket that the runtime does not give back has failed.
        let Ok(socket) = socket.loosen() else {
            return DoorCounters::count(&self.counters.lost);
        };
        DoorCounters::count(&self.counters.entered);
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        self.inboxes[at].push(Arrival {
            socket,
            tunnel: entered.tunnel,
            early: entered.early.into(),
            peer: Peer {
                entrance: Arc::clone(&door.entrance),
                address: entered.address,
                identity: entered.identity,
            },
            guest,
            came_from: CameFrom::Door,
        });
    }
}
