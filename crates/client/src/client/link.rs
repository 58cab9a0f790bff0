//! One connection's bytes, blocking: a socket, and the layers above it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use courser_transport::{Rest, Tunnel};

use super::wire::{is_timeout, open};
use crate::layers::refused;
use crate::{ClientError, Options};

/// Bytes asked of the socket at a time.
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    tunnel: Option<Box<Tunnel>>,
    /// What came through the socket, for the layers to open.
    raw: Vec<u8>,
}

impl Link {
    /// Connects, and makes the handshakes of the layers.
    pub(crate) fn open(options: &Options) -> Result<Self, ClientError> {
        let mut link = Self {
            stream: open(options)?,
            tunnel: None,
            raw: Vec::new(),
        };
        let address = || format!("{}:{}", options.host, options.port);
        let begun = options.layers.begin();
        link.tunnel = begun.map_err(|fault| refused(address(), fault))?;
        if let Some(tunnel) = &mut link.tunnel {
            link.raw = vec![0; READ_BYTES];
            let deadline = Instant::now() + options.answer_max;
            handshake(&mut link.stream, tunnel, &mut link.raw, deadline, &address)?;
        }
        Ok(link)
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => ClientError::TimedOut,
            _ => ClientError::Io(error),
        };
        let Some(tunnel) = &mut self.tunnel else {
            return self.stream.write_all(bytes).map_err(failed);
        };
        let mut left = bytes;
        while !left.is_empty() {
            let taken = tunnel.send(std::iter::once(left));
            left = &left[taken..];
            let sent = tunnel.write(&mut self.stream).map_err(failed)?;
            if sent.rest == Rest::Waits {
                return Err(ClientError::TimedOut);
            }
        }
        Ok(())
    }

    /// Reads once; 0 at the end. What is no MQTT, such as a ping of WebSocket, ends the wait as a time-out does.
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Some(tunnel) = &mut self.tunnel else {
            return self.stream.read(room);
        };
        if tunnel.has_plain() {
            return Ok(tunnel.take(room));
        }
        if tunnel.has_ended() {
            return Ok(0);
        }
        let count = self.stream.read(&mut self.raw)?;
        if count == 0 {
            return Ok(0);
        }
        let opened = tunnel.receive(&self.raw[..count], room);
        tunnel.write(&mut self.stream)?;
        match opened.map_err(io::Error::other)? {
            0 if tunnel.has_ended() => Ok(0),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Reads something; 0 at the end.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] when nothing comes before `deadline`.
    pub(crate) fn read_before(
        &mut self,
        deadline: Instant,
        room: &mut [u8],
    ) -> Result<usize, ClientError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ClientError::TimedOut);
            }
            self.set_read_timeout(Some(left)).map_err(ClientError::Io)?;
            match self.read(room) {
                Ok(count) => return Ok(count),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(ClientError::Io(error)),
            }
        }
    }

    /// How long a read may wait; `None`: for ever.
    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    /// See [`Stopper`].
    pub(super) fn stopper(&self) -> io::Result<Stopper> {
        self.stream.try_clone().map(Stopper)
    }

    /// Says good-bye in all layers. Whoever has heard DISCONNECT before may have gone already.
    pub(super) fn close(mut self) {
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.close();
            let _ = tunnel.write(&mut self.stream);
        }
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    pub(super) fn into_parts(self) -> (TcpStream, Option<Box<Tunnel>>) {
        (self.stream, self.tunnel)
    }
}

/// Ends the wait of a [`Client`](crate::Client) from another thread.
#[derive(Debug)]
pub struct Stopper(TcpStream);

impl Stopper {
    /// Whoever waits for something of the broker gets [`ClientError::Closed`] instead, now and from now on. The other way stays
    /// open: the client can still say good-bye.
    pub fn stop(&self) {
        // One that has gone already waits for nothing.
        let _ = self.0.shutdown(Shutdown::Read);
    }
}

fn handshake(
    stream: &mut TcpStream,
    tunnel: &mut Tunnel,
    raw: &mut [u8],
    deadline: Instant,
    address: &dyn Fn() -> String,
) -> Result<(), ClientError> {
    loop {
        tunnel.write(stream).map_err(ClientError::Io)?;
        if tunnel.is_open() {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::TimedOut);
        }
        stream
            .set_read_timeout(Some(left))
            .map_err(ClientError::Io)?;
        let count = match stream.read(raw) {
            Ok(count) => count,
            Err(error) if is_timeout(&error) => continue,
            Err(error) => return Err(ClientError::Io(error)),
        };
        if count == 0 || tunnel.has_ended() {
            return Err(ClientError::Ended { address: address() });
        }
        // What is MQTT already stays with the tunnel.
        if let Err(fault) = tunnel.receive(&raw[..count], &mut []) {
            // The other side is told, if it still listens.
            let _ = tunnel.write(stream);
            return Err(refused(address(), fault));
        }
    }
}
