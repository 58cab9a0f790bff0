//! The PROXY header, versions 1 and 2: a proxy says from where the connection came that it passes on.
//!
//! It proves nothing by itself. Whether it is believed is decided before it is read, by the address of the proxy.

use std::net::SocketAddr;

use ppp::{v1, v2};

/// Longest header that is read. Version 1 ends after 107 bytes; version 2 has room for additional fields, such as the certificate that a client has shown
/// to the proxy, of some KiB. It is all that may come before the handshakes of a connection are over; who sends less holds no more than that.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Longest line of version 1, its end included.
const LINE_BYTES_MAX: usize = 107;
/// Words of the line before the two ports.
const PORTS_AT: usize = 4;
/// Bytes of version 2 before its addresses.
const FIXED_BYTES: usize = 16;

/// A header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who connected to the proxy. None: the proxy itself did, as for a health check, or it does not know.
    pub source: Option<SocketAddr>,
    /// Bytes of the header: what follows belongs to the connection.
    pub length: usize,
}

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The connection does not begin with one.
    #[error("the connection does not begin with a PROXY header")]
    Missing,
    /// It begins like one and goes on differently.
    #[error("the PROXY header is malformed")]
    Malformed,
    /// It is longer than [`HEADER_BYTES_MAX`].
    #[error("the PROXY header is longer than {HEADER_BYTES_MAX} bytes")]
    TooLong,
    /// It is of something else than a stream over IPv4 or IPv6.
    #[error("the PROXY header is not of a TCP connection")]
    OtherProtocol,
}

/// Reads the header at the beginning of `received`. None: more bytes are needed.
///
/// # Errors
/// When these bytes cannot become a header however they go on.
pub fn read(received: &[u8]) -> Result<Option<Header>, ProxyError> {
    if begins(received, v2::PROTOCOL_PREFIX) {
        return read_binary(received);
    }
    if begins(received, v1::PROTOCOL_PREFIX.as_bytes()) {
        return read_line(received);
    }
    Err(ProxyError::Missing)
}

/// Whether `received` may be, or become, something that begins with `prefix`.
fn begins(received: &[u8], prefix: &[u8]) -> bool {
    let known = received.len().min(prefix.len());
    received[..known] == prefix[..known]
}

fn read_line(received: &[u8]) -> Result<Option<Header>, ProxyError> {
    let known = &received[..received.len().min(LINE_BYTES_MAX)];
    let Some(end) = known.windows(2).position(|pair| pair == b"\r\n") else {
        return if known.len() == LINE_BYTES_MAX {
            Err(ProxyError::TooLong)
        } else {
            Ok(None)
        };
    };
    let length = end + 2;
    let line = known.get(..length).unwrap_or_default();
    // The words of the line are ASCII; the parser gets nothing else.
    if !line.is_ascii() {
        return Err(ProxyError::Malformed);
    }
    let header = v1::Header::try_from(line).map_err(|_| ProxyError::Malformed)?;
    let has_addresses = header.addresses != v1::Addresses::Unknown;
    if has_addresses
        && !line
            .trim_ascii_end()
            .split(|byte| *byte == b' ')
            .skip(PORTS_AT)
            .all(is_port)
    {
        return Err(ProxyError::Malformed);
    }
    let source = match header.addresses {
        v1::Addresses::Unknown => None,
        v1::Addresses::Tcp4(pair) => Some((pair.source_address, pair.source_port).into()),
        v1::Addresses::Tcp6(pair) => Some((pair.source_address, pair.source_port).into()),
    };
    Ok(Some(Header { source, length }))
}

/// Digits without leading zeros: the parser takes `+1` and `01` as well.
fn is_port(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_digit) && (word.len() == 1 || !word.starts_with(b"0"))
}

fn read_binary(received: &[u8]) -> Result<Option<Header>, ProxyError> {
    let Some(fixed) = received.get(..FIXED_BYTES) else {
        return Ok(None);
    };
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > HEADER_BYTES_MAX {
        return Err(ProxyError::TooLong);
    }
    let Some(whole) = received.get(..length) else {
        return Ok(None);
    };
    let header = v2::Header::try_from(whole).map_err(|_| ProxyError::Malformed)?;
    let source = match (header.command, header.protocol, header.addresses) {
        (v2::Command::Local, _, _) => None,
        (v2::Command::Proxy, v2::Protocol::Stream, v2::Addresses::IPv4(pair)) => {
            Some((pair.source_address, pair.source_port).into())
        }
        (v2::Command::Proxy, v2::Protocol::Stream, v2::Addresses::IPv6(pair)) => {
            Some((pair.source_address, pair.source_port).into())
        }
        (v2::Command::Proxy, v2::Protocol::Unspecified, v2::Addresses::Unspecified) => None,
        (v2::Command::Proxy, _, _) => return Err(ProxyError::OtherProtocol),
    };
    Ok(Some(Header { source, length }))
}

#[cfg(test)]
mod tests;
