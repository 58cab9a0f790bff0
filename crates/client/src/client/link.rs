//! One connection's bytes, blocking: a socket, and the layers above it.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use courser_transport::{Rest, Tunnel, TunnelError};

use super::wire::is_timeout;
use crate::layers::refused;
use crate::socket::Socket;
use crate::{ClientError, Options, Speaks};

/// Bytes asked of the socket at a time.
const READ_BYTES: usize = 64 * 1024;

/// Whether the other side has gone, with bytes of ours that it has not read.
fn is_hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

/// That it has done so before the layers were agreed on: what takes them for broken MQTT does so without a word.
fn hung_up(address: &str, is_answered: bool) -> ClientError {
    ClientError::Ended {
        address: address.to_owned(),
        hint: match is_answered {
            true => "",
            false => " (is this the port of plain MQTT?)",
        },
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    stream: Socket,
    tunnel: Option<Box<Tunnel>>,
    /// What came through the socket, for the layers to open.
    raw: Vec<u8>,
    /// As people write it.
    address: String,
    answer_max: Duration,
}

impl Link {
    /// Connects, and makes the handshakes of the layers.
    pub(crate) fn open(options: &Options) -> Result<Self, ClientError> {
        let mut link = Self {
            stream: Socket::open(&options.endpoint, options.bind, options.answer_max)?,
            tunnel: None,
            raw: Vec::new(),
            address: options.endpoint.to_string(),
            answer_max: options.answer_max,
        };
        let begun = options.layers.begin();
        link.tunnel = begun.map_err(|fault| refused(options.endpoint.to_string(), fault))?;
        if link.tunnel.is_some() {
            link.raw = vec![0; READ_BYTES];
            link.handshake()?;
        }
        Ok(link)
    }

    /// How long the broker may take for an answer.
    pub(super) const fn answer_max(&self) -> Duration {
        self.answer_max
    }

    /// That it took longer.
    pub(crate) fn timed_out(&self) -> ClientError {
        self.silent_for(self.answer_max)
    }

    /// That it has not answered for so long.
    pub(super) fn silent_for(&self, after: Duration) -> ClientError {
        ClientError::TimedOut {
            address: self.address.clone(),
            after,
        }
    }

    /// A failure before CONNACK, after which nobody is connected: with the address, and with what is there instead of a broker whose first
    /// bytes are `input`.
    pub(super) fn not_connected(&self, error: ClientError, input: &[u8]) -> ClientError {
        let address = self.address.clone();
        match error {
            ClientError::Protocol(what) => ClientError::Stranger {
                address,
                speaks: Speaks::of(input, what),
            },
            // With TLS 1.3 a server refuses a client's certificate after the client has said all.
            ClientError::Io(error) => match error.downcast::<TunnelError>() {
                Ok(fault) => refused(address, fault),
                Err(error) => ClientError::Io(error),
            },
            ClientError::Closed => ClientError::Ended { address, hint: "" },
            other => other,
        }
    }

    /// Agrees on the layers.
    fn handshake(&mut self) -> Result<(), ClientError> {
        let deadline = Instant::now() + self.answer_max;
        let mut is_answered = false;
        while let Some(tunnel) = &mut self.tunnel {
            match tunnel.write(&mut self.stream) {
                Ok(_) => {}
                Err(error) if is_hung_up(&error) => {
                    return Err(hung_up(&self.address, is_answered));
                }
                Err(error) => return Err(ClientError::Io(error)),
            }
            if tunnel.is_open() {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.timed_out());
            }
            let waits = self.stream.set_read_timeout(Some(left));
            waits.map_err(ClientError::Io)?;
            let count = match self.stream.read(&mut self.raw) {
                Ok(count) => count,
                Err(error) if is_timeout(&error) => continue,
                Err(error) if is_hung_up(&error) => 0,
                Err(error) => return Err(ClientError::Io(error)),
            };
            if count == 0 || tunnel.has_ended() {
                return Err(hung_up(&self.address, is_answered));
            }
            is_answered = true;
            // What is MQTT already stays with the tunnel.
            if let Err(fault) = tunnel.receive(&self.raw[..count], &mut []) {
                // The other side is told, if it still listens.
                let _ = tunnel.write(&mut self.stream);
                return Err(refused(self.address.clone(), fault));
            }
        }
        Ok(())
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.write(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => self.timed_out(),
            _ => ClientError::Io(error),
        })
    }

    /// [`io::ErrorKind::WouldBlock`] where the broker does not take it in time.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tunnel) = &mut self.tunnel else {
            return self.stream.write_all(bytes);
        };
        let mut left = bytes;
        while !left.is_empty() {
            let taken = tunnel.send(std::iter::once(left));
            left = &left[taken..];
            let sent = tunnel.write(&mut self.stream)?;
            if sent.rest == Rest::Waits {
                return Err(io::ErrorKind::WouldBlock.into());
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
                return Err(self.timed_out());
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

    pub(super) fn into_parts(self) -> (Socket, Option<Box<Tunnel>>) {
        (self.stream, self.tunnel)
    }
}

/// Ends the wait of a [`Client`](crate::Client) from another thread.
#[derive(Debug)]
pub struct Stopper(Socket);

impl Stopper {
    /// Whoever waits for something of the broker gets [`ClientError::Closed`] instead, now and from now on. The other way stays
    /// open: the client can still say good-bye.
    pub fn stop(&self) {
        // One that has gone already waits for nothing.
        let _ = self.0.shutdown(Shutdown::Read);
    }
}
