//! Frames of WebSocket on a connection that was upgraded (RFC 6455 section 5).
//!
//! Heads and codes are the library's, but not its reader: that one makes room for all that a head announces, and keeps what came until the
//! frame is whole. Here payload is handed on as it comes, so that a frame that never ends holds nothing:
//! - of a frame is held what came of its head, at most [`HEAD_BYTES_MAX`], and of a control frame its payload, at most
//!   [`CONTROL_BYTES_MAX`]
//! - what is too long, or is no binary frame, is refused as soon as its head is there
//! - nothing is said after a good-bye, and nothing heard after that of the other side, or after a fault

use std::io::Cursor;

use tungstenite::protocol::Role;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::mask::Mask;
use super::{WebError, WebLimits};
use crate::tunnel::Plain;

/// Longest head of a frame: two bytes, eight of a length, four of a mask.
const HEAD_BYTES_MAX: usize = 14;
/// The bits of the second byte that are the length, or say in how many bytes behind them it is.
const LENGTH_BITS: u8 = 0x7F;
const LENGTH_OF_TWO_BYTES: u8 = 126;
const LENGTH_OF_EIGHT_BYTES: u8 = 127;
/// Longest payload of a control frame (RFC 6455 5.5).
const CONTROL_BYTES_MAX: u64 = 125;

#[derive(Debug)]
pub(crate) struct Frames {
    role: Role,
    limits: WebLimits,
    /// The one of them that counts now: whoever speaks MQTT has said CONNECT with the first message, and may say more before that is answered.
    limit: u64,
    reading: Reading,
    /// Bytes that frames have announced so far of a message that goes on.
    message: Option<u64>,
    /// The answer to the newest ping, as a frame, until nothing that was said before waits any more.
    pub(crate) pong: Vec<u8>,
    /// Whether the other side has said good-bye, or something that is not allowed.
    pub(crate) ended: bool,
    /// Whether this side has.
    closed: bool,
}

/// What the next byte belongs to.
#[derive(Debug)]
enum Reading {
    Head(Head),
    Data(Payload),
    Control {
        kind: Control,
        payload: Payload,
        bytes: Vec<u8>,
    },
}

/// What came of a head.
#[derive(Debug, Default)]
struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

/// What is still to come of a frame.
#[derive(Debug)]
struct Payload {
    left: u64,
    /// That of the next byte.
    mask: Option<Mask>,
}

impl Frames {
    pub(super) fn new(role: Role, limits: WebLimits) -> Self {
        Self {
            role,
            limits,
            limit: limits.first as u64,
            reading: Reading::Head(Head::default()),
            message: None,
            pong: Vec::new(),
            ended: false,
            closed: false,
        }
    }

    /// Takes what came: bytes of MQTT go to `into`, answers to `out`. After a fault the good-bye is said.
    pub(super) fn receive(
        &mut self,
        received: &[u8],
        into: &mut Plain<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), WebError> {
        let result = self.read(received, into, out);
        if let Err(fault) = result {
            self.ended = true;
            self.end(close_code(fault), out);
        }
        result
    }

    fn read(
        &mut self,
        mut received: &[u8],
        into: &mut Plain<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), WebError> {
        while !self.ended {
            let is_whole = match &mut self.reading {
                Reading::Head(head) => {
                    let Some((header, length)) = head.take(&mut received)? else {
                        return Ok(());
                    };
                    self.reading = self.begin(&header, length)?;
                    continue;
                }
                Reading::Data(payload) => {
                    let bytes = payload.take(&mut received);
                    into.put_masked(bytes, payload.mask.as_mut());
                    payload.left == 0
                }
                Reading::Control { payload, bytes, .. } => {
                    let begin = bytes.len();
                    bytes.extend_from_slice(payload.take(&mut received));
                    if let Some(mask) = &mut payload.mask {
                        mask.apply(&mut bytes[begin..]);
                    }
                    payload.left == 0
                }
            };
            if !is_whole {
                return Ok(());
            }
            let next = Reading::Head(Head::default());
            if let Reading::Control { kind, bytes, .. } = std::mem::replace(&mut self.reading, next)
            {
                self.handle_control(kind, &bytes, out)?;
            }
        }
        Ok(())
    }

    /// Whether a frame may come, by its head, and what follows.
    fn begin(&mut self, header: &FrameHeader, length: u64) -> Result<Reading, WebError> {
        // Nothing is agreed on that uses these bits. What a client sends is masked, and nothing else is.
        let is_extended = header.rsv1 || header.rsv2 || header.rsv3;
        if is_extended || header.mask.is_some() != (self.role == Role::Server) {
            return Err(WebError::BadFrame);
        }
        let payload = Payload {
            left: length,
            mask: header.mask.map(Mask::new),
        };
        match header.opcode {
            OpCode::Data(kind) => {
                self.begin_data(kind, header.is_final, length)?;
                Ok(Reading::Data(payload))
            }
            OpCode::Control(kind) if header.is_final && length <= CONTROL_BYTES_MAX => {
                Ok(Reading::Control {
                    kind,
                    payload,
                    bytes: Vec::new(),
                })
            }
            OpCode::Control(_) => Err(WebError::BadFrame),
        }
    }

    fn begin_data(&mut self, kind: Data, is_final: bool, length: u64) -> Result<(), WebError> {
        let before = match (kind, self.message) {
            (Data::Binary, None) => 0,
            (Data::Continue, Some(bytes)) => bytes,
            (Data::Text, None) => return Err(WebError::Text),
            (Data::Continue, None)
            | (Data::Binary | Data::Text, Some(_))
            | (Data::Reserved(_), _) => return Err(WebError::BadFrame),
        };
        let bytes = before.saturating_add(length);
        if bytes > self.limit {
            return Err(WebError::FrameTooLarge);
        }
        self.message = (!is_final).then_some(bytes);
        if is_final && bytes > 0 {
            self.limit = self.limits.later as u64;
        }
        Ok(())
    }

    fn handle_control(
        &mut self,
        kind: Control,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WebError> {
        match kind {
            Control::Ping if self.closed => Ok(()),
            Control::Ping => {
                self.pong.clear();
                put(
                    self.role,
                    OpCode::Control(Control::Pong),
                    payload,
                    &mut self.pong,
                );
                Ok(())
            }
            Control::Pong => Ok(()),
            Control::Close => self.handle_close(payload, out),
            Control::Reserved(_) => Err(WebError::BadFrame),
        }
    }

    /// A good-bye is answered with its own code, unless that may not be on the wire.
    fn handle_close(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), WebError> {
        let is_allowed = match payload {
            [] => true,
            [_] => return Err(WebError::BadFrame),
            [high, low, reason @ ..] => {
                str::from_utf8(reason).map_err(|_| WebError::BadFrame)?;
                CloseCode::from(u16::from_be_bytes([*high, *low])).is_allowed()
            }
        };
        if is_allowed {
            self.say_good_bye(payload, out);
        } else {
            self.end(CloseCode::Protocol, out);
        }
        self.ended = true;
        Ok(())
    }

    /// Makes one binary frame.
    pub(crate) fn send(&self, bytes: &[u8], out: &mut Vec<u8>) {
        if !self.closed {
            put(self.role, OpCode::Data(Data::Binary), bytes, out);
        }
    }

    /// Says good-bye.
    pub(crate) fn end(&mut self, code: CloseCode, out: &mut Vec<u8>) {
        self.say_good_bye(&u16::from(code).to_be_bytes(), out);
    }

    fn say_good_bye(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.closed, true) {
            put(self.role, OpCode::Control(Control::Close), payload, out);
            self.pong.clear();
        }
    }
}

impl Head {
    /// Takes bytes of a head: what it says and the length of the payload, if it is whole.
    fn take(&mut self, received: &mut &[u8]) -> Result<Option<(FrameHeader, u64)>, WebError> {
        let before = self.length;
        let room = &mut self.bytes[before..];
        let count = room.len().min(received.len());
        room[..count].copy_from_slice(&received[..count]);
        self.length += count;
        let mut cursor = Cursor::new(&self.bytes[..self.length]);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| WebError::BadFrame)?;
        if parsed
            .as_ref()
            .is_some_and(|(_, length)| self.is_too_long(*length))
        {
            return Err(WebError::BadFrame);
        }
        let used = match parsed {
            Some(_) => cursor.position() as usize - before,
            None => count,
        };
        *received = &received[used..];
        Ok(parsed)
    }

    /// Whether a whole head says a length in more bytes than it takes (RFC 6455 5.2).
    const fn is_too_long(&self, length: u64) -> bool {
        match self.bytes[1] & LENGTH_BITS {
            LENGTH_OF_TWO_BYTES => length < LENGTH_OF_TWO_BYTES as u64,
            LENGTH_OF_EIGHT_BYTES => length <= u16::MAX as u64,
            _ => false,
        }
    }
}

impl Payload {
    /// Those of the received bytes that are its own.
    fn take<'a>(&mut self, received: &mut &'a [u8]) -> &'a [u8] {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let (bytes, rest) = received.split_at(left.min(received.len()));
        *received = rest;
        self.left -= bytes.len() as u64;
        bytes
    }
}

/// Writes one whole frame. What a client says is masked with bytes that nobody can guess (RFC 6455 5.3).
fn put(role: Role, opcode: OpCode, payload: &[u8], out: &mut Vec<u8>) {
    let mask: Option<[u8; 4]> = match role {
        Role::Client => Some(rand::random()),
        Role::Server => None,
    };
    let header = FrameHeader {
        opcode,
        mask,
        ..FrameHeader::default()
    };
    out.reserve(HEAD_BYTES_MAX + payload.len());
    // Writing to a vector cannot fail.
    let _ = header.format(payload.len() as u64, out);
    let begin = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        Mask::new(mask).apply(&mut out[begin..]);
    }
}

const fn close_code(fault: WebError) -> CloseCode {
    match fault {
        WebError::Text => CloseCode::Unsupported,
        WebError::FrameTooLarge => CloseCode::Size,
        WebError::BadFrame
        | WebError::Malformed
        | WebError::TooLong
        | WebError::OtherPath
        | WebError::NoUpgrade
        | WebError::NoSubprotocol
        | WebError::OtherOrigin
        | WebError::Refused(_) => CloseCode::Protocol,
    }
}
