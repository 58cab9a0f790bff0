//! A connected socket of either kind: TCP, or a Unix socket of this machine.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::{ClientError, Endpoint};

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects within a time, from an address of this machine where one is named; neither a read nor a write waits longer than that, unless told otherwise.
    pub(crate) fn open(
        endpoint: &Endpoint,
        from: Option<IpAddr>,
        within: Duration,
    ) -> Result<Self, ClientError> {
        let opened = match endpoint {
            Endpoint::Tcp { host, port } => {
                let addresses = resolve(host, *port)?;
                first_of(addresses, from, within).map(Self::Tcp)
            }
            // Who listens has taken it at once, or there is no room.
            Endpoint::Unix(path) => UnixStream::connect(path).map(Self::Unix),
        };
        let socket = opened.map_err(|source| not_connected(endpoint, source))?;
        socket.prepare(within).map_err(ClientError::Io)?;
        Ok(socket)
    }

    fn prepare(&self, within: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(within))
            }
            Self::Unix(stream) => stream.set_write_timeout(Some(within)),
        }
    }

    /// Begins to connect and does not wait for it: once it is writable, [`error`](Self::error) says what came of it.
    ///
    /// # Errors
    /// Of the system; [`io::ErrorKind::WouldBlock`] where a Unix socket has no room for another connection now.
    pub(crate) fn begin(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs()?.next();
                let address = found.ok_or_else(no_address)?;
                mio::net::TcpStream::connect(address).map(|it| Self::Tcp(it.into()))
            }
            Endpoint::Unix(path) => {
                mio::net::UnixStream::connect(path).map(|it| Self::Unix(it.into()))
            }
        }
    }

    /// What has failed on it since somebody asked.
    pub(crate) fn error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Tcp(stream) => stream.take_error(),
            Self::Unix(stream) => stream.take_error(),
        }
    }

    /// Small packets leave at once.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    /// How long a read may wait; `None`: for ever.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
            Self::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Another hold on the same socket.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(room),
            Self::Unix(stream) => stream.read(room),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(slices),
            Self::Unix(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All addresses of a host.
pub(crate) fn resolve(
    host: &str,
    port: u16,
) -> Result<impl Iterator<Item = SocketAddr>, ClientError> {
    let found = (host, port).to_socket_addrs();
    found.map_err(|source| ClientError::Resolve {
        host: host.to_owned(),
        source,
    })
}

/// That a host has none.
pub(crate) fn nowhere(host: &str) -> ClientError {
    ClientError::Resolve {
        host: host.to_owned(),
        source: no_address(),
    }
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}

fn first_of(
    addresses: impl Iterator<Item = SocketAddr>,
    from: Option<IpAddr>,
    within: Duration,
) -> io::Result<TcpStream> {
    let mut last = match from {
        Some(from) => io::Error::new(
            io::ErrorKind::NotFound,
            format!("it has no address of the kind of {from}"),
        ),
        None => no_address(),
    };
    for address in addresses {
        let connected = match from {
            Some(from) if from.is_ipv4() != address.is_ipv4() => continue,
            Some(from) => connect_from(from, address, within),
            None => TcpStream::connect_timeout(&address, within),
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_from(from: IpAddr, to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::new(from, 0))?;
    // It holds for connect, too (socket(7)).
    set_socket_timeout(&socket, Timeout::Send, Some(within))?;
    match connect(&socket, &to) {
        Ok(()) => Ok(socket.into()),
        Err(Errno::INPROGRESS) => Err(io::ErrorKind::TimedOut.into()),
        Err(error) => Err(error.into()),
    }
}

fn not_connected(endpoint: &Endpoint, source: io::Error) -> ClientError {
    use io::ErrorKind::{AddrNotAvailable, ConnectionRefused, NotFound};
    let hint = match (endpoint, source.kind()) {
        (Endpoint::Tcp { .. }, ConnectionRefused) => {
            " (is the server running? try: courser server)"
        }
        (Endpoint::Unix(_), ConnectionRefused | NotFound) => {
            " (is the server running, with a [[listener]] of this socket?)"
        }
        (Endpoint::Tcp { .. }, AddrNotAvailable) => " (is -A an address of this machine?)",
        (Endpoint::Tcp { .. } | Endpoint::Unix(_), _) => "",
    };
    ClientError::Connect {
        address: endpoint.to_string(),
        hint,
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_client_comes_from_the_address_that_it_names() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let open = |host: &str, from: &str| {
            let host = host.to_owned();
            let from = from.parse().expect("an address");
            Socket::open(
                &Endpoint::Tcp { host, port },
                Some(from),
                Duration::from_secs(9),
            )
        };
        let _socket = open("127.0.0.1", "127.0.0.7").expect("it listens");
        let (_, from) = listener.accept().expect("it comes");
        assert_eq!(from.ip().to_string(), "127.0.0.7");
        for (host, from, why) in [
            (
                "127.0.0.1",
                "192.0.2.1",
                "(is -A an address of this machine?)",
            ),
            ("127.0.0.1", "::1", "it has no address of the kind of ::1"),
        ] {
            let refused = open(host, from).expect_err(why).to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
