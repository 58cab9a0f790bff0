//! Listening sockets: one for each address and shard, so that the kernel shares new connections out (SO_REUSEPORT).
//!
//! With SO_REUSEPORT alone two brokers of one user could serve one port unnoticed; so each address is first bound without
//! it, which fails when anybody has the port.

mod holder;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use courser_settings::{ClientCertificates, Listener, Settings};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::peer::{Entrance, ListenerId};

pub use holder::holder;
use holder::socket_holder;

/// How to choose another address of `mqtt.listen`.
const CHANGE_MQTT: &str = "with --mqtt ADDRESS:PORT";

/// Connections that may wait to be accepted by one shard.
const BACKLOG: i32 = 4096;

/// How long a peer is silent before its kernel is asked whether it is there. It costs a packet and wakes the radio of a device that sleeps
/// between its own packets, so no more often than Redis asks (`tcp-keepalive`, 300 s); Linux by itself would take two hours (RFC 9293, 3.8.4).
const PEER_SILENCE: Duration = Duration::from_mins(5);
/// How long each answer may take.
const PEER_ANSWER: Duration = Duration::from_secs(30);
/// Times that it is asked: a peer that has vanished is gone 7 minutes after its last packet.
const PEER_ASKED: u32 = 4;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else has it.
    #[error("{address} is in use by {holder}: stop that one, or listen elsewhere {change}")]
    InUse {
        /// The address.
        address: SocketAddr,
        /// The process, as far as it is known.
        holder: String,
        /// What to change.
        change: String,
    },
    /// Another server listens on a Unix socket.
    #[error("{} is in use by {holder}: stop that one, or listen elsewhere {change}", path.display())]
    SocketInUse {
        /// The path.
        path: PathBuf,
        /// The process, as far as it is known.
        holder: String,
        /// What to change.
        change: String,
    },
    /// Ports below 1024 and the like.
    #[error(
        "{address} needs rights that this process does not have: use a port from 1024, {change}"
    )]
    Denied {
        /// The address.
        address: SocketAddr,
        /// What to change.
        change: String,
    },
    /// One of `mqtt.listen` can be reached from other machines, and nobody has to prove who they are.
    #[error(
        "{address} can be reached from other machines, and nobody has to log in: ask for accounts with mqtt.authentication = \
         \"accounts\" (`courser init` writes that, and the first one), listen on a loopback address such as \
         127.0.0.1:{port}, or let anyone in with --insecure-anonymous",
        port = address.port()
    )]
    PublicMqtt {
        /// The address.
        address: SocketAddr,
    },
    /// It can be reached from other machines, and nobody has to prove who they are.
    #[error(
        "listener \"{listener}\": {place} can be reached from other machines, and {proven}: give it \
         authentication (courser init makes the first account), listen on a loopback address, or let anyone in: here with \
         insecure_anonymous = true, everywhere with --insecure-anonymous"
    )]
    Public {
        /// The listener.
        listener: String,
        /// The address.
        place: String,
        /// What that has to do with who its clients are.
        proven: &'static str,
    },
    /// Its clients come through proxies from wherever these are reached, and nobody has to prove who they are.
    #[error(
        "listener \"{listener}\": its clients come through proxies, so it can be reached from other machines wherever it listens, and \
         {proven}: give it authentication (courser init makes the first account), or let anyone in: here with \
         insecure_anonymous = true, everywhere with --insecure-anonymous"
    )]
    Proxied {
        /// The listener.
        listener: String,
        /// What that has to do with who its clients are.
        proven: &'static str,
    },
    /// The path of a Unix socket.
    #[error("cannot listen on {}", path.display())]
    Unix {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// systemd has opened no socket of this name.
    #[error(
        "listener \"{listener}\": systemd has opened no socket named \"{name}\": start the broker by its .socket unit, with \
         FileDescriptorName={name}"
    )]
    NotActivated {
        /// The listener.
        listener: String,
        /// The name.
        name: String,
    },
    /// A socket that was opened cannot be used.
    #[error("listener \"{listener}\": its socket cannot be used")]
    Named {
        /// The listener.
        listener: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Anything else.
    #[error("cannot listen on {address}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl ListenError {
    fn new(address: SocketAddr, source: io::Error, change: &str) -> Self {
        let change = change.to_owned();
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse {
                address,
                holder: holder(address),
                change,
            },
            io::ErrorKind::PermissionDenied => Self::Denied { address, change },
            _ => Self::Other { address, source },
        }
    }

    /// Whether this machine just has no such kind of address, as where IPv6 is switched off.
    fn is_missing_family(&self) -> bool {
        let Self::Other { source, .. } = self else {
            return false;
        };
        let code = source
            .raw_os_error()
            .map(rustix::io::Errno::from_raw_os_error);
        source.kind() == io::ErrorKind::AddrNotAvailable
            || code == Some(rustix::io::Errno::AFNOSUPPORT)
    }
}

/// One listening socket of one shard.
#[derive(Debug)]
pub(crate) struct BoundListener {
    pub(crate) socket: TcpListener,
    /// What its connections have in common.
    pub(crate) entrance: Arc<Entrance>,
}

/// The listeners of all shards.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// Where they listen, ports filled in.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whose each of them is.
    pub(crate) owners: Vec<ListenerId>,
    /// For each shard one listener an address.
    pub(crate) by_shard: Vec<Vec<BoundListener>>,
}

/// Addresses of one listener, and what its connections have in common.
#[derive(Debug)]
pub(crate) struct Plain<'a> {
    pub(crate) addresses: &'a [SocketAddr],
    pub(crate) entrance: Arc<Entrance>,
    /// How to choose another address, for people.
    pub(crate) change: String,
}

impl<'a> Plain<'a> {
    /// Those of `mqtt.listen`.
    #[must_use]
    pub(crate) fn mqtt(addresses: &'a [SocketAddr], entrance: Arc<Entrance>) -> Self {
        Self {
            addresses,
            entrance,
            change: CHANGE_MQTT.to_owned(),
        }
    }
}

/// The first address or Unix socket of the settings that another process has, and who that is. To be asked before the process is confined to its
/// own files, since it is shown nothing of other processes from then on. The usual addresses of `http.listen` are left out: they may be taken.
#[must_use]
pub fn find_taken(settings: &Settings) -> Option<ListenError> {
    let http = &settings.http.listen;
    let http = (*http != Settings::default().http.listen).then_some(http);
    let mqtt = settings
        .mqtt
        .listen
        .iter()
        .map(|it| (it, CHANGE_MQTT.to_owned()));
    let http = http.into_iter().flatten();
    let http = http.map(|it| (it, "with --http ADDRESS:PORT".to_owned()));
    let doors = settings.doors.iter();
    let doors = doors.flat_map(|door| door.address.iter().map(|it| (it, change_of(door))));
    let mut all = mqtt.chain(doors).chain(http);
    all.find_map(|(&address, change)| {
        claim(address, &change)
            .err()
            .filter(|error| matches!(error, ListenError::InUse { .. }))
    })
    .or_else(|| settings.doors.iter().find_map(taken_socket))
}

/// A Unix socket on which another process listens.
pub(crate) fn taken_socket(listener: &Listener) -> Option<ListenError> {
    let path = listener.unix.as_ref()?;
    let holder = socket_holder(path)?;
    Some(ListenError::SocketInUse {
        path: path.clone(),
        holder,
        change: format!("with another unix of listener \"{}\"", listener.name),
    })
}

/// What clients of a listener without authentication prove of who they are.
pub(crate) const fn proven(listener: &Listener) -> &'static str {
    match listener.client_certificates {
        ClientCertificates::Off => "its clients prove nothing",
        ClientCertificates::Asked | ClientCertificates::Required => {
            "the certificates of its clients make nobody a user without authentication = \"accounts\", so that each may do everything"
        }
    }
}

/// How to choose another address of a listener.
pub(crate) fn change_of(listener: &Listener) -> String {
    format!("with another address of listener \"{}\"", listener.name)
}

/// An IPv6 loopback address is left out on a machine without IPv6 when there is another address.
fn is_optional(address: SocketAddr, all: &[SocketAddr], error: &ListenError) -> bool {
    all.len() > 1 && address.is_ipv6() && address.ip().is_loopback() && error.is_missing_family()
}

/// Binds the addresses of `all` for each of `shards`, but see [`is_optional`].
///
/// # Errors
/// The first address that cannot be bound.
pub(crate) fn listen(all: &[Plain<'_>], shards: u16) -> Result<Listeners, ListenError> {
    let mut listeners = Listeners {
        addresses: Vec::new(),
        owners: Vec::new(),
        by_shard: (0..shards).map(|_| Vec::new()).collect(),
    };
    for plain in all {
        for &address in plain.addresses {
            let bound = match claim(address, &plain.change) {
                Ok(bound) => bound,
                Err(error) if is_optional(address, plain.addresses, &error) => continue,
                Err(error) => return Err(error),
            };
            listeners.addresses.push(bound);
            listeners.owners.push(plain.entrance.id);
            for of_shard in &mut listeners.by_shard {
                let socket = listener(bound, Reuse::Shards)
                    .map_err(|source| ListenError::new(bound, source, &plain.change))?;
                of_shard.push(BoundListener {
                    socket,
                    entrance: Arc::clone(&plain.entrance),
                });
            }
        }
    }
    Ok(listeners)
}

/// A socket for each address, which nobody else may share, but see [`is_optional`].
///
/// # Errors
/// The first address that cannot be bound; `change` says what to do then.
pub(crate) fn unshared(
    addresses: &[SocketAddr],
    change: &str,
) -> Result<Vec<TcpListener>, ListenError> {
    let mut sockets = Vec::new();
    for &address in addresses {
        match alone(address, change) {
            Ok(socket) => sockets.push(socket),
            Err(error) if is_optional(address, addresses, &error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sockets)
}

/// A socket that shares its address with nobody.
fn alone(address: SocketAddr, change: &str) -> Result<TcpListener, ListenError> {
    listener(address, Reuse::Nobody).map_err(|source| ListenError::new(address, source, change))
}

/// Makes sure that nobody has the address, and finds the port when that is 0.
fn claim(address: SocketAddr, change: &str) -> Result<SocketAddr, ListenError> {
    alone(address, change)?
        .local_addr()
        .map_err(|source| ListenError::new(address, source, change))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Nobody,
    Shards,
}

fn listener(address: SocketAddr, reuse: Reuse) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A restart may bind while connections of the last run are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if reuse == Reuse::Shards {
        socket.set_reuse_port(true)?;
    }
    // Accepted sockets inherit these, which saves system calls of each.
    socket.set_tcp_nodelay(true)?;
    watch_peers(SockRef::from(&socket))?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Has the kernel end connections whose peers have vanished: a keep-alive of MQTT may be none at all, or 18 hours, and nothing else would
/// find out where nothing is sent. Sockets that it accepts inherit it. Who opened the socket and has said how to ask is left with that.
///
/// Without TCP_USER_TIMEOUT: it would also end who is there and does not read, and what is sent and never acknowledged ends by itself.
///
/// # Errors
/// When it is no socket of TCP.
pub(crate) fn watch_peers(socket: SockRef<'_>) -> io::Result<()> {
    if socket.keepalive()? {
        return Ok(());
    }
    let asking = TcpKeepalive::new()
        .with_time(PEER_SILENCE)
        .with_interval(PEER_ANSWER)
        .with_retries(PEER_ASKED);
    socket.set_tcp_keepalive(&asking)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Authentication;
    use std::net::TcpStream;

    fn loopback() -> SocketAddr {
        ([127, 0, 0, 1], 0).into()
    }

    fn anyone() -> Arc<Entrance> {
        Entrance::mqtt(Authentication::None, &courser_settings::Settings::default())
    }

    #[test]
    fn a_port_that_another_broker_shares_among_its_shards_is_in_use() {
        let first =
            listen(&[Plain::mqtt(&[loopback()], anyone())], 2).expect("a free port can be bound");
        let error =
            listen(&[Plain::mqtt(&first.addresses, anyone())], 2).expect_err("the port is taken");
        assert!(matches!(error, ListenError::InUse { .. }), "{error}");
        assert!(error.to_string().contains("--mqtt"), "{error}");
    }

    #[test]
    fn a_unix_socket_on_which_another_server_listens_is_in_use_by_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mqtt.sock");
        let door = format!("listener=[{{ name = \"local\", unix = {path:?} }}]");
        let settings = courser_settings::Sources::new().set(&door).check();
        let settings = settings.expect("the settings are right");
        assert!(find_taken(&settings).is_none(), "there is no such file");
        let socket = std::os::unix::net::UnixListener::bind(&path).expect("a free path");
        let error = find_taken(&settings).expect("somebody listens");
        let ours = format!("mqtt.sock is in use by process {} (", std::process::id());
        assert!(error.to_string().contains(&ours), "{error}");
        assert!(
            error
                .to_string()
                .ends_with("with another unix of listener \"local\""),
            "{error}"
        );
        drop(socket);
        assert!(find_taken(&settings).is_none(), "it was left behind");
    }

    #[test]
    fn accepted_sockets_send_small_packets_at_once() {
        let listeners =
            listen(&[Plain::mqtt(&[loopback()], anyone())], 1).expect("a free port can be bound");
        let accepted = accepted(&listeners.by_shard[0][0].socket);
        assert!(accepted.nodelay().expect("it is a TCP socket"));
    }

    /// Whether, after what silence, how often and how many times a socket asks its peer.
    fn asks(socket: &TcpStream) -> (bool, Duration, Duration, u32) {
        let socket = SockRef::from(socket);
        (
            socket.keepalive().expect("a socket"),
            socket.tcp_keepalive_time().expect("a TCP socket"),
            socket.tcp_keepalive_interval().expect("a TCP socket"),
            socket.tcp_keepalive_retries().expect("a TCP socket"),
        )
    }

    fn accepted(listener: &TcpListener) -> TcpStream {
        let address = listener.local_addr().expect("it is bound");
        let _client = TcpStream::connect(address).expect("it listens");
        listener
            .set_nonblocking(false)
            .expect("a listener can block");
        listener.accept().expect("somebody has connected").0
    }

    #[test]
    fn cve_2020_13849_accepted_sockets_ask_a_silent_peer_whether_it_is_there() {
        let expected = (true, Duration::from_secs(300), Duration::from_secs(30), 4);
        let of_shards =
            listen(&[Plain::mqtt(&[loopback()], anyone())], 1).expect("a free port can be bound");
        let of_shards = &of_shards.by_shard[0][0].socket;
        assert_eq!(asks(&accepted(of_shards)), expected);
        let of_doors = unshared(&[loopback()], "").expect("a free port can be bound");
        assert_eq!(asks(&accepted(&of_doors[0])), expected);
    }

    #[test]
    fn a_socket_that_somebody_else_opened_asks_as_that_one_has_said() {
        let given = TcpListener::bind(loopback()).expect("a free port can be bound");
        watch_peers(SockRef::from(&given)).expect("a TCP socket");
        assert_eq!(asks(&accepted(&given)).1, PEER_SILENCE, "it said nothing");
        let given = TcpListener::bind(loopback()).expect("a free port can be bound");
        let own = TcpKeepalive::new().with_time(Duration::from_secs(77));
        let socket = SockRef::from(&given);
        socket.set_tcp_keepalive(&own).expect("a TCP socket");
        watch_peers(SockRef::from(&given)).expect("a TCP socket");
        assert_eq!(asks(&accepted(&given)).1, Duration::from_secs(77));
    }
}
