//! One connection's layers.

use std::io::{self, BufRead, IoSlice, Write};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use tungstenite::protocol::frame::coding::CloseCode;

use crate::web::{Mask, Web, WebError, WebServer};

/// Bytes of MQTT that one [`Tunnel::send`] takes: what the sockets of a plain connection are given at once, so that what waits in
/// the layers stays bounded.
const SEND_BYTES: usize = 64 * 1024;
/// Slices of one [`Tunnel::send`].
const SLICES: usize = 64;
/// Vectors that are larger are not kept by an idle connection.
const KEPT_BYTES: usize = 4 * 1024;

/// Why a tunnel ends.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// TLS.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// WebSocket.
    #[error("WebSocket: {0}")]
    Web(#[from] WebError),
    /// TLS that takes no more bytes: a record that is longer than the standard allows.
    #[error("TLS: a record beyond the limit")]
    Full,
}

/// Where the bytes of MQTT go: to the room that a reader has, and what is more to the tunnel itself.
#[derive(Debug)]
pub struct Plain<'a> {
    room: &'a mut [u8],
    filled: usize,
    spill: &'a mut Vec<u8>,
}

impl Plain<'_> {
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let fits = if self.spill.is_empty() {
            bytes.len().min(self.room.len() - self.filled)
        } else {
            0
        };
        self.room[self.filled..self.filled + fits].copy_from_slice(&bytes[..fits]);
        self.filled += fits;
        self.spill.extend_from_slice(&bytes[fits..]);
    }

    /// Takes the mask off, too.
    pub(crate) fn put_masked(&mut self, bytes: &[u8], mask: Option<&mut Mask>) {
        let (filled, spilt) = (self.filled, self.spill.len());
        self.put(bytes);
        if let Some(mask) = mask {
            mask.apply(&mut self.room[filled..self.filled]);
            mask.apply(&mut self.spill[spilt..]);
        }
    }
}

/// The layers between a socket and MQTT; see the crate's documentation.
///
/// - What came goes to [`receive`](Self::receive), what it did not have room for is fetched with [`take`](Self::take).
/// - What is to be sent goes to [`send`](Self::send) while nothing [waits](Self::wants_write), and from there to the socket by
///   [`write`](Self::write).
///
/// An idle one costs about 1 KiB for TLS and less than that for WebSocket (`tests/held.rs`).
#[derive(Debug)]
pub struct Tunnel {
    tls: Option<Box<Connection>>,
    unfinished: Unfinished,
    web: Web,
    /// Bytes of MQTT that the reader had no room for.
    spill: Vec<u8>,
    /// What WebSocket has for the socket, or for TLS.
    out: Vec<u8>,
    /// How much of that is written.
    written: usize,
    /// Bytes that TLS was given and has not written, without what it adds to them.
    sealed: usize,
    /// Whether the other side has closed.
    ended: bool,
    /// Whether this side has said good-bye.
    closed: bool,
}

impl Tunnel {
    /// Of a server: with TLS, with WebSocket, or both.
    ///
    /// # Errors
    /// When TLS cannot begin, as for want of random numbers.
    pub fn server(
        tls: Option<Arc<ServerConfig>>,
        web: Option<&Arc<WebServer>>,
    ) -> Result<Self, TunnelError> {
        let tls = tls.map(ServerConnection::new).transpose()?;
        let web = web.map_or(Web::Off, Web::accepting);
        Ok(Self::new(tls.map(Connection::Server), web, Vec::new()))
    }

    /// Of a client: with TLS to a server of this name, with WebSocket to a host and path, or both.
    ///
    /// # Errors
    /// When TLS cannot begin.
    pub fn client(
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
        web: Option<(&str, &str)>,
    ) -> Result<Self, TunnelError> {
        let tls = tls
            .map(|(config, name)| ClientConnection::new(config, name))
            .transpose()?;
        let mut out = Vec::new();
        let web = web.map_or(Web::Off, |(host, path)| {
            Web::connecting(host, path, &mut out)
        });
        let mut tunnel = Self::new(tls.map(Connection::Client), web, out);
        tunnel.encrypt();
        Ok(tunnel)
    }

    fn new(mut tls: Option<Connection>, web: Web, out: Vec<u8>) -> Self {
        if let Some(tls) = &mut tls {
            // The bound is that of `send`.
            tls.set_buffer_limit(None);
        }
        Self {
            tls: tls.map(Box::new),
            unfinished: Unfinished::default(),
            web,
            spill: Vec::new(),
            out,
            written: 0,
            sealed: 0,
            ended: false,
            closed: false,
        }
    }

    /// Whether all handshakes are over and bytes of MQTT may be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.web.is_open() && !self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// The other side's certificate, verified. None without one, and before the handshake is over.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        let tls = self.tls.as_ref().filter(|tls| !tls.is_handshaking())?;
        tls.peer_certificates()?.first()
    }

    /// Takes all of what a socket received. How many bytes of MQTT are in `room` now; what is more waits for
    /// [`take`](Self::take).
    ///
    /// # Errors
    /// When a layer does not allow what came: the connection is over. What is to be said to that is there to be written.
    pub fn receive(&mut self, received: &[u8], room: &mut [u8]) -> Result<usize, TunnelError> {
        let mut into = Plain {
            room,
            filled: 0,
            spill: &mut self.spill,
        };
        let result = match &mut self.tls {
            None => self
                .web
                .receive(received, &mut into, &mut self.out)
                .map(|()| End::NotYet)
                .map_err(Into::into),
            Some(tls) => decrypt(tls, &mut self.unfinished, received, |plain| {
                self.web.receive(plain, &mut into, &mut self.out)
            }),
        };
        let filled = into.filled;
        self.encrypt();
        self.answer();
        self.ended |= match (&result, &self.web) {
            (Err(_), _) => true,
            (Ok(End::Reached), _) => true,
            (Ok(End::NotYet), Web::On(frames)) => frames.ended,
            (Ok(End::NotYet), Web::Off | Web::Accepting(_) | Web::Connecting(_)) => false,
        };
        result.map(|_| filled)
    }

    /// Moves bytes of MQTT that came before to `room`; how many.
    pub fn take(&mut self, room: &mut [u8]) -> usize {
        let count = self.spill.len().min(room.len());
        room[..count].copy_from_slice(&self.spill[..count]);
        self.spill.drain(..count);
        if self.spill.is_empty() && self.spill.capacity() > KEPT_BYTES {
            self.spill = Vec::new();
        }
        count
    }

    /// Whether there are bytes for [`take`](Self::take).
    #[must_use]
    pub fn has_plain(&self) -> bool {
        !self.spill.is_empty()
    }

    /// Whether the other side has said that it sends nothing any more.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether there is something for [`write`](Self::write).
    #[must_use]
    pub fn wants_write(&self) -> bool {
        match &self.tls {
            Some(tls) => tls.wants_write(),
            None => self.written < self.out.len(),
        }
    }

    /// Bytes that wait to be written, about: never more than one [`send`](Self::send) takes and a few frames of WebSocket.
    #[must_use]
    pub fn unwritten_bytes(&self) -> usize {
        match &self.tls {
            Some(_) => self.sealed,
            None => self.out.len() - self.written,
        }
    }

    /// Bytes that TLS has read and holds: of a record that has not ended, and of records that gave nothing, as those of a handshake message do that
    /// goes on in further ones. Up to 16 KiB for the one and 64 KiB for the other; 0 while there is a handshake, which has its own bounds.
    #[must_use]
    pub const fn unfinished_bytes(&self) -> usize {
        self.unfinished.joined + self.unfinished.of_record
    }

    /// Takes bytes of MQTT, at most 64 KiB; how many. To be called when nothing waits to be written.
    pub fn send<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>) -> usize {
        let mut room = SEND_BYTES;
        let pieces = slices.take(SLICES).map_while(|slice| {
            let piece = &slice[..slice.len().min(room)];
            room -= piece.len();
            (!piece.is_empty()).then_some(piece)
        });
        match (&mut self.web, &mut self.tls) {
            (Web::On(frames), _) => {
                let mut bytes = Vec::new();
                for piece in pieces {
                    bytes.extend_from_slice(piece);
                }
                frames.send(&bytes, &mut self.out);
                self.encrypt();
            }
            (Web::Off, Some(tls)) => {
                let mut all: [IoSlice<'_>; SLICES] = std::array::from_fn(|_| IoSlice::new(&[]));
                let mut count = 0;
                for (place, piece) in all.iter_mut().zip(pieces) {
                    *place = IoSlice::new(piece);
                    count += 1;
                }
                // Without a limit all of it is taken.
                let _ = tls.writer().write_vectored(&all[..count]);
                self.sealed += SEND_BYTES - room;
            }
            (Web::Off, None) => {
                for piece in pieces {
                    self.out.extend_from_slice(piece);
                }
            }
            (Web::Accepting(_) | Web::Connecting(_), _) => return 0,
        }
        SEND_BYTES - room
    }

    /// Writes what waits. True when nothing does any more, false when the socket takes no more.
    ///
    /// # Errors
    /// Those of the socket, but that it would block.
    pub fn write(&mut self, socket: &mut dyn Write) -> io::Result<Sent> {
        let mut bytes = 0;
        while self.wants_write() || self.answer() {
            let written = match &mut self.tls {
                Some(tls) => tls.write_tls(&mut *socket),
                None => socket.write(&self.out[self.written..]),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes += count;
                    self.note_written(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Sent {
                        bytes,
                        rest: Rest::Waits,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Sent {
            bytes,
            rest: Rest::None,
        })
    }

    /// Says good-bye in every layer, once. Nothing is sent after it.
    pub fn close(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        if let Web::On(frames) = &mut self.web {
            frames.end(CloseCode::Normal, &mut self.out);
        }
        self.encrypt();
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
    }

    /// Moves what WebSocket wrote into TLS.
    fn encrypt(&mut self) {
        let Some(tls) = &mut self.tls else {
            return;
        };
        if !self.out.is_empty() {
            // Without a limit all of it is taken.
            let _ = tls.writer().write_all(&self.out);
            self.sealed += self.out.len();
            self.forget_written();
        }
    }

    /// Lets the answer to the newest ping go if nothing else waits: whether it did.
    fn answer(&mut self) -> bool {
        if self.wants_write() {
            return false;
        }
        match &mut self.web {
            Web::On(frames) if !frames.pong.is_empty() => {
                self.out.append(&mut frames.pong);
                self.encrypt();
                true
            }
            Web::On(_) | Web::Off | Web::Accepting(_) | Web::Connecting(_) => false,
        }
    }

    fn note_written(&mut self, count: usize) {
        if self.tls.is_none() {
            self.written += count;
        } else {
            self.sealed = self.sealed.saturating_sub(count);
        }
        if !self.wants_write() {
            self.sealed = 0;
            self.forget_written();
        }
    }

    fn forget_written(&mut self) {
        self.out.clear();
        self.written = 0;
        if self.out.capacity() > KEPT_BYTES {
            self.out = Vec::new();
        }
    }
}

/// What a [`Tunnel::write`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Bytes that went to the socket.
    pub bytes: usize,
    /// What is left.
    pub rest: Rest,
}

/// Whether something is left to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    None,
    /// The socket takes no more now.
    Waits,
}

/// Whether the other side has closed TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    Reached,
}

/// What TLS holds of what it has read, by the lengths of its records: TLS itself does not say.
#[derive(Debug, Default)]
struct Unfinished {
    /// The head of the record that is read, as far as it has come.
    head: [u8; HEAD_BYTES],
    /// Bytes of it and of what follows that have come; 0: the next record has not begun.
    of_record: usize,
    /// Bytes of records that have ended since one has given something.
    joined: usize,
}

/// Bytes before what is in a record: its type, its version and its length (RFC 8446 section 5.1).
const HEAD_BYTES: usize = 5;

impl Unfinished {
    /// Goes on with bytes that TLS has read.
    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let wanted = match self.of_record {
                come @ 0..HEAD_BYTES => HEAD_BYTES - come,
                come => self.record_bytes() - come,
            };
            let (part, behind) = bytes.split_at(wanted.min(bytes.len()));
            bytes = behind;
            if let Some(room) = self.head.get_mut(self.of_record..) {
                let fits = part.len().min(room.len());
                room[..fits].copy_from_slice(&part[..fits]);
            }
            self.of_record += part.len();
            if self.of_record >= HEAD_BYTES && self.of_record == self.record_bytes() {
                self.joined = self.joined.saturating_add(self.of_record);
                self.of_record = 0;
            }
        }
    }

    /// All of the record, whose head has come.
    fn record_bytes(&self) -> usize {
        HEAD_BYTES + usize::from(u16::from_be_bytes([self.head[3], self.head[4]]))
    }
}

/// Gives `plain` what is in the records of `received`.
fn decrypt(
    tls: &mut Connection,
    unfinished: &mut Unfinished,
    mut received: &[u8],
    mut plain: impl FnMut(&[u8]) -> Result<(), WebError>,
) -> Result<End, TunnelError> {
    while !received.is_empty() {
        let before = received;
        let was_handshaking = tls.is_handshaking();
        let count = tls.read_tls(&mut received).map_err(|_| TunnelError::Full)?;
        if count == 0 {
            return Err(TunnelError::Full);
        }
        unfinished.follow(&before[..count]);
        let state = tls.process_new_packets()?;
        let mut reader = tls.reader();
        let mut left = state.plaintext_bytes_to_read();
        // Nothing comes between the records of one handshake message (RFC 8446 section 5.1).
        if left > 0 || was_handshaking {
            unfinished.joined = 0;
        }
        while left > 0 {
            let Ok(chunk) = reader.fill_buf() else { break };
            let length = chunk.len();
            plain(chunk)?;
            reader.consume(length);
            left = left.saturating_sub(length.max(1));
        }
        if state.peer_has_closed() {
            return Ok(End::Reached);
        }
    }
    Ok(End::NotYet)
}

#[cfg(test)]
mod tests;
