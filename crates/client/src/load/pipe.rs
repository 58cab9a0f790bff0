//! One connection's bytes without waiting: a socket, and the layers above it.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

use courser_transport::{Rest, Tunnel};

use crate::socket::Socket;

#[derive(Debug)]
pub(crate) struct Pipe {
    stream: Socket,
    tunnel: Option<Box<Tunnel>>,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes that need not be given again.
    pub(crate) bytes: usize,
    /// Whether the socket takes no more now.
    pub(crate) full: bool,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// So many bytes, of layers perhaps none; and whether there may be more at once.
    Bytes(usize, bool),
    /// The other side has closed.
    End,
}

impl Pipe {
    pub(crate) const fn new(stream: Socket, tunnel: Option<Box<Tunnel>>) -> Self {
        Self { stream, tunnel }
    }

    pub(crate) const fn stream(&self) -> &Socket {
        &self.stream
    }

    /// What is polled.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Whether bytes of MQTT may be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.tunnel.as_ref().is_none_or(|tunnel| tunnel.is_open())
    }

    /// Whether there is something to read without the socket.
    pub(crate) fn has_more(&self) -> bool {
        let tunnel = self.tunnel.as_ref();
        tunnel.is_some_and(|tunnel| tunnel.has_plain() || tunnel.has_ended())
    }

    /// Writes until all is written or the socket is full; what the layers have to say, too.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<Taken> {
        let Some(tunnel) = &mut self.tunnel else {
            return write_plainly(&mut self.stream, bytes);
        };
        let mut taken = 0;
        loop {
            if tunnel.write(&mut self.stream)?.rest == Rest::Waits {
                return Ok(Taken {
                    bytes: taken,
                    full: true,
                });
            }
            if taken == bytes.len() {
                return Ok(Taken {
                    bytes: taken,
                    full: false,
                });
            }
            taken += tunnel.send(std::iter::once(&bytes[taken..]));
        }
    }

    /// Reads once; through layers by way of `raw`.
    ///
    /// # Errors
    /// Those of the socket, that it would block among them, and of the layers.
    pub(crate) fn read(&mut self, raw: &mut [u8], room: &mut [u8]) -> io::Result<Got> {
        let Some(tunnel) = &mut self.tunnel else {
            return Ok(match self.stream.read(room)? {
                0 => Got::End,
                count => Got::Bytes(count, count == room.len()),
            });
        };
        if tunnel.has_plain() {
            return Ok(Got::Bytes(tunnel.take(room), true));
        }
        if tunnel.has_ended() {
            return Ok(Got::End);
        }
        let count = self.stream.read(raw)?;
        if count == 0 {
            return Ok(Got::End);
        }
        let opened = tunnel.receive(&raw[..count], room);
        let count_open = opened.map_err(io::Error::other)?;
        let more = tunnel.has_plain() || tunnel.has_ended() || count == raw.len();
        Ok(Got::Bytes(count_open, more))
    }
}

fn write_plainly(stream: &mut Socket, bytes: &[u8]) -> io::Result<Taken> {
    let mut taken = 0;
    while taken < bytes.len() {
        match stream.write(&bytes[taken..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => taken += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Taken {
                    bytes: taken,
                    full: true,
                });
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Taken {
        bytes: taken,
        full: false,
    })
}
