//! The listening sockets of doors: TCP, Unix, and those that systemd has opened.

use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use courser_settings::{Listener, is_public};
use listenfd::ListenFd;
use socket2::SockRef;

use crate::listen::{self, ListenError};

/// A socket that listens, and what it is called.
#[derive(Debug)]
pub(crate) enum Listening {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

impl Listening {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(socket) => socket.try_clone().map(Self::Tcp),
            Self::Unix(socket) => socket.try_clone().map(Self::Unix),
        }
    }

    /// Whether it does: one that was only bound looks the same.
    fn listens(&self) -> bool {
        let listens = match self {
            Self::Tcp(socket) => SockRef::from(socket).is_listener(),
            Self::Unix(socket) => SockRef::from(socket).is_listener(),
        };
        listens.is_ok_and(|listens| listens)
    }

    /// Where it listens, for people.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Tcp(socket) => socket
                .local_addr()
                .map_or_else(|error| error.to_string(), |address| address.to_string()),
            Self::Unix(socket) => match socket.local_addr() {
                Ok(address) => address.as_pathname().map_or_else(
                    || "a Unix socket".to_owned(),
                    |path| path.display().to_string(),
                ),
                Err(error) => error.to_string(),
            },
        }
    }

    /// Whether other machines may reach it.
    pub(crate) fn is_public(&self) -> bool {
        match self {
            Self::Tcp(socket) => socket.local_addr().as_ref().is_ok_and(is_public),
            Self::Unix(_) => false,
        }
    }
}

/// Sockets that systemd has opened for this process, each taken once.
pub(crate) struct Activated {
    sockets: ListenFd,
    names: Vec<String>,
}

impl Activated {
    /// Those in the environment, if they are for this process.
    pub(crate) fn from_environment() -> Self {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        Self {
            names: names.split(':').map(str::to_owned).collect(),
            sockets: ListenFd::from_env(),
        }
    }

    /// All sockets of a name.
    fn take(&mut self, name: &str) -> io::Result<Vec<Listening>> {
        let mut found = Vec::new();
        for at in 0..self.sockets.len() {
            if self.names.get(at).is_none_or(|known| known != name) {
                continue;
            }
            let listening = match self.sockets.take_tcp_listener(at) {
                Ok(socket) => socket.map(Listening::Tcp),
                Err(_) => self.sockets.take_unix_listener(at)?.map(Listening::Unix),
            };
            found.extend(listening);
        }
        Ok(found)
    }
}

/// Opens the sockets of a listener.
///
/// # Errors
/// The first that cannot be opened.
pub(crate) fn bind(
    listener: &Listener,
    activated: &mut Activated,
) -> Result<Vec<Listening>, ListenError> {
    let named = |source| ListenError::Named {
        listener: listener.name.clone(),
        source,
    };
    let change = listen::change_of(listener);
    let sockets = listen::unshared(&listener.address, &change)?.into_iter();
    let mut all: Vec<Listening> = sockets.map(Listening::Tcp).collect();
    if let Some(path) = &listener.unix {
        all.push(Listening::Unix(
            bind_unix(path, &listener.unix_mode).map_err(|source| {
                let taken = match source.kind() {
                    io::ErrorKind::AddrInUse => listen::taken_socket(listener),
                    _ => None,
                };
                taken.unwrap_or_else(|| ListenError::Unix {
                    path: path.clone(),
                    source,
                })
            })?,
        ));
    }
    if let Some(name) = &listener.activation {
        let sockets = activated.take(name).map_err(named)?;
        if sockets.is_empty() {
            return Err(ListenError::NotActivated {
                listener: listener.name.clone(),
                name: name.clone(),
            });
        }
        if sockets.iter().any(|socket| !socket.listens()) {
            return Err(named(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "the socket \"{name}\" that was given is bound, but does not listen: nobody could come in by it"
                ),
            )));
        }
        all.extend(sockets);
    }
    for socket in &all {
        match socket {
            Listening::Tcp(socket) => socket
                .set_nonblocking(true)
                .and_then(|()| listen::watch_peers(SockRef::from(socket))),
            Listening::Unix(socket) => socket.set_nonblocking(true),
        }
        .map_err(named)?;
    }
    Ok(all)
}

fn bind_unix(path: &Path, mode: &str) -> io::Result<UnixListener> {
    let mode = u32::from_str_radix(mode, 8).map_err(io::Error::other)?;
    remove_stale(path)?;
    // Nobody else may connect before the file has its rights.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let socket = bound?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(socket)
}

/// Removes a socket that a process has left behind which did not stop in order.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = match std::fs::symlink_metadata(path) {
        Ok(found) => found.file_type().is_socket(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_socket {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something else than a socket",
        ));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}

/// Files of Unix sockets, removed in the end.
#[derive(Debug, Default)]
pub(crate) struct SocketFiles(pub(crate) Vec<PathBuf>);

impl Drop for SocketFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_bound_and_does_not_listen_is_told_apart() {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let address: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(&address.into()).expect("it is bound");
        let listening = socket.try_clone().expect("another name for it");
        let given = Listening::Tcp(socket.into());
        assert!(!given.listens());
        listening.listen(1).expect("it listens");
        assert!(given.listens());

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mqtt.sock");
        let address = socket2::SockAddr::unix(&path).expect("a path that is short enough");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        socket.bind(&address).expect("it is bound");
        let listening = socket.try_clone().expect("another name for it");
        let given = Listening::Unix(socket.into());
        assert!(!given.listens());
        listening.listen(1).expect("it listens");
        assert!(given.listens());
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_nothing_else_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mqtt.sock");
        let first = bind_unix(&path, "600").expect("a free path");
        let mode = std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = bind_unix(&path, "600").expect_err("somebody listens");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        let second = bind_unix(&path, "666").expect("nobody listens any more");
        let mode = std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o666);
        drop(second);
        let file = folder.path().join("file");
        std::fs::write(&file, "x").expect("a file");
        let error = bind_unix(&file, "600").expect_err("a file is in the way");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&file).expect("still there"), b"x");
    }
}
