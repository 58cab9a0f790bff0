//! What a connection's bytes go through: a socket, and the layers above it where its listener has any.
//!
//! TCP without layers is the first arm of each match and does what it did before there were others; nothing is called by table.

use std::io::{self, IoSlice, Read as _, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use courser_memory::{Buffer, ReceivePool};
use courser_transport::{Sent, Tunnel, TunnelError};
use socket2::SockRef;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::connection::{Received, up_to};
use crate::doors::LooseSocket;

/// A socket of this shard's runtime.
#[derive(Debug)]
pub(crate) enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

/// What bytes go through.
#[derive(Debug)]
pub(crate) enum Transport {
    /// The socket alone.
    Plain(Socket),
    /// TLS, WebSocket, or both.
    Layered(Box<Layered>),
}

/// A socket with layers.
#[derive(Debug)]
pub(crate) struct Layered {
    pub(crate) socket: Socket,
    pub(crate) tunnel: Tunnel,
}

impl Socket {
    /// Takes a socket to the runtime of the calling thread.
    ///
    /// # Errors
    /// When the runtime cannot watch it.
    pub(crate) fn adopt(loose: LooseSocket) -> io::Result<Self> {
        match loose {
            LooseSocket::Tcp(socket) => TcpStream::from_std(socket).map(Self::Tcp),
            LooseSocket::Unix(socket) => UnixStream::from_std(socket).map(Self::Unix),
        }
    }

    /// Reads what there is, or has `context` woken.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(room);
        let polled = match self {
            Self::Tcp(socket) => Pin::new(socket).poll_read(context, &mut room),
            Self::Unix(socket) => Pin::new(socket).poll_read(context, &mut room),
        };
        polled.map_ok(|()| room.filled().len())
    }

    /// Reads what the kernel has, also what the runtime has not been told of yet.
    pub(crate) fn read_at_once(&self, room: &mut [u8]) -> io::Result<usize> {
        (&*SockRef::from(self)).read(room)
    }

    #[inline]
    pub(crate) fn poll_read_ready(&self, context: &mut Context<'_>) -> bool {
        match self {
            Self::Tcp(socket) => socket.poll_read_ready(context).is_ready(),
            Self::Unix(socket) => socket.poll_read_ready(context).is_ready(),
        }
    }

    #[inline]
    pub(crate) fn poll_write_ready(&self, context: &mut Context<'_>) -> bool {
        match self {
            Self::Tcp(socket) => socket.poll_write_ready(context).is_ready(),
            Self::Unix(socket) => socket.poll_write_ready(context).is_ready(),
        }
    }

    #[inline]
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_write(bytes),
            Self::Unix(socket) => socket.try_write(bytes),
        }
    }

    #[inline]
    pub(crate) fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_write_vectored(slices),
            Self::Unix(socket) => socket.try_write_vectored(slices),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Transport {
    /// Takes it from the runtime of the calling thread, layers and all.
    ///
    /// # Errors
    /// When the runtime does not give the socket back.
    pub(crate) fn loosen(self) -> io::Result<(LooseSocket, Option<Box<Tunnel>>)> {
        let (socket, tunnel) = match self {
            Self::Plain(socket) => (socket, None),
            Self::Layered(layered) => (layered.socket, Some(Box::new(layered.tunnel))),
        };
        let loose = match socket {
            Socket::Tcp(socket) => LooseSocket::Tcp(socket.into_std()?),
            Socket::Unix(socket) => LooseSocket::Unix(socket.into_std()?),
        };
        Ok((loose, tunnel))
    }

    /// The socket below.
    #[inline]
    pub(crate) const fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Layered(layered) => &layered.socket,
        }
    }

    /// Ends our side of the socket.
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        SockRef::from(self.socket()).shutdown(Shutdown::Write)
    }

    /// Whether the layers have something for the socket.
    #[inline]
    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Layered(layered) => layered.tunnel.wants_write(),
        }
    }

    /// Bytes that the layers have for the socket.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Layered(layered) => layered.tunnel.unwritten_bytes(),
        }
    }

    /// Bytes that the layers have read of what has not ended, and hold: of a record or a handshake message of TLS.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Layered(layered) => layered.tunnel.unfinished_bytes(),
        }
    }

    /// Whether there is something to read without the socket.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Layered(layered) => layered.tunnel.has_plain() || layered.tunnel.has_ended(),
        }
    }
}

impl Layered {
    /// Writes what the layers have for the socket.
    ///
    /// # Errors
    /// Those of the socket, but that it would block.
    pub(crate) fn flush(&mut self) -> io::Result<Sent> {
        self.tunnel.write(&mut Now(&self.socket))
    }
}

/// Writes that do not wait.
struct Now<'a>(&'a Socket);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads of the socket in one call that bring no bytes of MQTT, as of handshakes within TLS or of empty frames.
const FRUITLESS_MAX: usize = 4;

impl Layered {
    /// Reads once through the layers into `buffer`, `most` bytes of the socket.
    pub(super) fn receive(
        &mut self,
        pool: &ReceivePool,
        context: &mut Context<'_>,
        (mut buffer, most): (Buffer, usize),
    ) -> Received {
        if self.tunnel.has_plain() {
            let count = self.tunnel.take(buffer.room_mut());
            buffer.advance(count);
            return Received::Bytes(buffer, count);
        }
        for _ in 0..FRUITLESS_MAX {
            if self.tunnel.has_ended() {
                self.answer_end();
                return Received::End;
            }
            let mut raw = pool.take();
            match self.socket.poll_read(context, up_to(most, raw.room_mut())) {
                Poll::Pending => return Received::Nothing(buffer.settle()),
                Poll::Ready(Err(_) | Ok(0)) => return Received::End,
                Poll::Ready(Ok(count)) => raw.advance(count),
            }
            match self.open(raw.bytes(), &mut buffer) {
                Ok(0) => {}
                Ok(count) => return Received::Bytes(buffer, count),
                Err(_) => return Received::End,
            }
        }
        // The socket is asked again later.
        Received::Bytes(buffer, 0)
    }

    /// The same, but what the kernel has now, and never to wait.
    pub(super) fn receive_at_once(
        &mut self,
        pool: &ReceivePool,
        (buffer, most): (&mut Buffer, usize),
    ) -> io::Result<usize> {
        if self.tunnel.has_plain() {
            let count = self.tunnel.take(buffer.room_mut());
            buffer.advance(count);
            return Ok(count);
        }
        let mut raw = pool.take();
        let count = self.socket.read_at_once(up_to(most, raw.room_mut()))?;
        raw.advance(count);
        self.open(raw.bytes(), buffer).map_err(io::Error::other)
    }

    /// A good-bye is answered in every layer before the socket closes (RFC 6455 section 5.5.1): nobody waits until it can be said.
    #[cold]
    fn answer_end(&mut self) {
        self.tunnel.close();
        let _ = self.flush();
    }

    /// Takes the layers off what was received. How many bytes of MQTT are new in `buffer`.
    fn open(&mut self, raw: &[u8], buffer: &mut Buffer) -> Result<usize, TunnelError> {
        let opened = self.tunnel.receive(raw, buffer.room_mut());
        match opened {
            Ok(count) => buffer.advance(count),
            Err(_) => {
                // What there is to say to a fault: nobody waits until it can be said.
                let _ = self.flush();
            }
        }
        opened
    }
}
