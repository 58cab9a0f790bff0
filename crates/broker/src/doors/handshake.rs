//! One connection from accept until it may speak MQTT: PROXY header, TLS, WebSocket, in one time limit.

use std::io::{self, IoSlice, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use courser_settings::Network;
use courser_transport::identity::{IdentityError, IdentityFrom, identity};
use courser_transport::proxy::{self, ProxyError};
use courser_transport::{Rest, Tunnel, TunnelError};
use tokio::net::{TcpStream, UnixStream};

use super::certificates::Certificates;
use super::inbox::LooseSocket;
use super::web::Web;
use crate::peer::NotNow;

/// Most bytes that are read before the handshakes are over.
const BYTES_MAX: usize = 16 * 1024;
const _: () = assert!(proxy::HEADER_BYTES_MAX <= BYTES_MAX);
/// Bytes of one read.
const READ_BYTES: usize = 4 * 1024;

/// A connection's socket on the runtime of the doors.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What comes before MQTT at a listener.
#[derive(Debug)]
pub(crate) struct Steps {
    /// Who must send a PROXY header. Empty: nobody may.
    pub(crate) proxies: Vec<Network>,
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) web: Option<Web>,
    pub(crate) identity: IdentityFrom,
    pub(crate) timeout: Duration,
}

/// Why a connection does not come in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the socket was closed")]
    Lost(#[source] io::Error),
    #[error("not within the time limit")]
    TimedOut,
    #[error("more than {BYTES_MAX} bytes before the handshakes were over")]
    TooMuch,
    #[error("not from a proxy of this listener")]
    NoProxy,
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    NotNow(#[from] NotNow),
}

/// A connection whose handshakes are over.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) address: Option<SocketAddr>,
    pub(crate) tunnel: Option<Box<Tunnel>>,
    pub(crate) early: Vec<u8>,
    pub(crate) identity: Option<Arc<str>>,
}

impl Steps {
    /// Whether a connection from this address may begin.
    pub(crate) fn lets_in(&self, address: Option<IpAddr>) -> bool {
        self.proxies.is_empty()
            || address.is_some_and(|address| self.proxies.iter().any(|it| it.contains(address)))
    }

    /// Takes all the steps. Behind a proxy `may_come` is asked once the address is known, before a handshake costs anything.
    pub(crate) async fn enter(
        &self,
        socket: &Socket,
        address: Option<SocketAddr>,
        may_come: impl FnMut(Option<IpAddr>) -> Result<(), NotNow>,
    ) -> Result<Entered, Refused> {
        tokio::time::timeout(self.timeout, self.walk(socket, address, may_come))
            .await
            .unwrap_or(Err(Refused::TimedOut))
    }

    async fn walk(
        &self,
        socket: &Socket,
        address: Option<SocketAddr>,
        mut may_come: impl FnMut(Option<IpAddr>) -> Result<(), NotNow>,
    ) -> Result<Entered, Refused> {
        let mut walk = Walk {
            address,
            head: (!self.proxies.is_empty()).then(Vec::new),
            tunnel: None,
            early: Vec::new(),
        };
        if self.certificates.is_some() || self.web.is_some() {
            let config = self.certificates.as_ref().map(|it| it.config());
            let web = self.web.as_ref().map(Web::server);
            let tunnel = Tunnel::server(config, web.as_ref())?;
            walk.tunnel = Some(Box::new(tunnel));
        }
        let mut received = 0;
        while !walk.is_over() {
            let mut bytes = [0; READ_BYTES];
            let count = socket.read(&mut bytes).await.map_err(Refused::Lost)?;
            received += count;
            let result = walk.receive(&bytes[..count], &mut may_come);
            // What a layer has to say to a fault goes out, too.
            if let Some(tunnel) = &mut walk.tunnel {
                socket.write(tunnel).await.map_err(Refused::Lost)?;
            }
            result?;
            if received > BYTES_MAX && !walk.is_over() {
                return Err(Refused::TooMuch);
            }
        }
        let certificate = walk.tunnel.as_ref().and_then(|it| it.certificate());
        let who = certificate
            .map(|it| identity(it, self.identity))
            .transpose()?;
        Ok(Entered {
            address: walk.address,
            tunnel: walk.tunnel,
            early: walk.early,
            identity: who.map(Arc::from),
        })
    }
}

/// How far a connection is.
struct Walk {
    address: Option<SocketAddr>,
    /// What came of the PROXY header; None once it is read.
    head: Option<Vec<u8>>,
    tunnel: Option<Box<Tunnel>>,
    early: Vec<u8>,
}

impl Walk {
    fn is_over(&self) -> bool {
        self.head.is_none() && self.tunnel.as_ref().is_none_or(|tunnel| tunnel.is_open())
    }

    fn receive(
        &mut self,
        bytes: &[u8],
        may_come: &mut impl FnMut(Option<IpAddr>) -> Result<(), NotNow>,
    ) -> Result<(), Refused> {
        let Some(head) = &mut self.head else {
            return self.pass_on(bytes);
        };
        head.extend_from_slice(bytes);
        let Some(header) = proxy::read(head)? else {
            return Ok(());
        };
        self.address = header.source.or(self.address);
        may_come(self.address.map(|address| address.ip()))?;
        let head = self.head.take().unwrap_or_default();
        self.pass_on(head.get(header.length..).unwrap_or_default())
    }

    fn pass_on(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        match &mut self.tunnel {
            Some(tunnel) => {
                // What is MQTT already stays with the tunnel.
                tunnel.receive(bytes, &mut [])?;
            }
            None => self.early.extend_from_slice(bytes),
        }
        Ok(())
    }
}

impl Socket {
    async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Self::Tcp(socket) => {
                    socket.readable().await?;
                    socket.try_read(bytes)
                }
                Self::Unix(socket) => {
                    socket.readable().await?;
                    socket.try_read(bytes)
                }
            };
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    async fn write(&self, tunnel: &mut Tunnel) -> io::Result<()> {
        while tunnel.write(&mut Now(self))?.rest == Rest::Waits {
            match self {
                Self::Tcp(socket) => socket.writable().await?,
                Self::Unix(socket) => socket.writable().await?,
            }
        }
        Ok(())
    }

    /// Takes it off the runtime.
    pub(crate) fn loosen(self) -> io::Result<LooseSocket> {
        Ok(match self {
            Self::Tcp(socket) => LooseSocket::Tcp(socket.into_std()?),
            Self::Unix(socket) => LooseSocket::Unix(socket.into_std()?),
        })
    }
}

/// Writes that do not wait.
struct Now<'a>(&'a Socket);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0 {
            Socket::Tcp(socket) => socket.try_write(bytes),
            Socket::Unix(socket) => socket.try_write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0 {
            Socket::Tcp(socket) => socket.try_write_vectored(slices),
            Socket::Unix(socket) => socket.try_write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
