//! A connected socket of either kind: TCP, or a Unix socket of this machine.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::{ClientError, Endpoint};

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects within a time; neither a read nor a write waits longer than that, unless told otherwise.
    pub(crate) fn open(endpoint: &Endpoint, within: Duration) -> Result<Self, ClientError> {
        let opened = match endpoint {
            Endpoint::Tcp { host, port } => {
                let addresses = resolve(host, *port)?;
                first_of(addresses, within).map(Self::Tcp)
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
    within: Duration,
) -> io::Result<TcpStream> {
    let mut last = no_address();
    for address in addresses {
        match TcpStream::connect_timeout(&address, within) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn not_connected(endpoint: &Endpoint, source: io::Error) -> ClientError {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    let hint = match (endpoint, source.kind()) {
        (Endpoint::Tcp { .. }, ConnectionRefused) => {
            " (is the server running? try: courser server)"
        }
        (Endpoint::Unix(_), ConnectionRefused | NotFound) => {
            " (is the server running, with a [[listener]] of this socket?)"
        }
        (Endpoint::Tcp { .. } | Endpoint::Unix(_), _) => "",
    };
    ClientError::Connect {
        address: endpoint.to_string(),
        hint,
        source,
    }
}
