//! Connections that begin with something else than a CONNECT. Most often two ends of one connection are not set up alike, and whoever did it
//! sees no more than that it ends: the log says what it looks like.

use super::connection::Connection;

/// First byte of a CONNECT.
const CONNECT: u8 = 0x10;
/// First bytes of a PROXY header of version 2.
const PROXY_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// First byte of a record of TLS that begins a handshake.
const TLS: u8 = 0x16;
const HTTP: [&[u8]; 9] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"PATCH ",
    b"DELETE ",
    b"OPTIONS ",
    b"CONNECT ",
    b"TRACE ",
];

/// Writes what a connection has sent instead of a CONNECT, if it is that for which it ends.
#[cold]
pub(super) fn tell(connection: &Connection) {
    let Some(rest) = connection.rest.as_ref().map(|rest| rest.bytes()) else {
        return;
    };
    let Some(&first) = rest.first() else {
        return;
    };
    if first == CONNECT || !connection.front.client_id().is_empty() {
        return;
    }
    let entrance = &connection.peer.entrance;
    if let Some(left_out) = entrance.admit_stranger() {
        tracing::warn!(
            event = "no_connect",
            listener = &*entrance.name,
            address = connection.peer.address.map(tracing::field::display),
            first_byte = format_args!("0x{first:02X}"),
            reason = looks_like(rest),
            left_out,
            "a connection does not begin with a CONNECT"
        );
    }
}

/// What these bytes seem to begin.
fn looks_like(bytes: &[u8]) -> &'static str {
    let begins = |with: &[u8]| {
        let both = bytes.len().min(with.len());
        bytes[..both] == with[..both]
    };
    let is_http = HTTP.into_iter().any(begins);
    match begins(b"PROXY ") {
        true if is_http => {
            "a PROXY header or HTTP: the listener has no proxies or has read a header already, and is for MQTT alone"
        }
        true => "a PROXY header: the listener has no proxies, or has read a header already",
        false if begins(PROXY_2) => {
            "a PROXY header of version 2: the listener has no proxies, or has read a header already"
        }
        false if bytes[0] == TLS => "TLS: the listener has none, or it is within its own",
        false if is_http => "HTTP or WebSocket: the listener is for MQTT alone",
        false => "neither CONNECT nor anything else that is known here",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_instead_of_a_connect_is_known_by_its_first_bytes() {
        let check = |bytes: &[u8], begins: &str| {
            let words = looks_like(bytes);
            assert!(words.starts_with(begins), "{bytes:?}: {words}");
        };
        check(
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "a PROXY header: the listener has no proxies, or has read a header already",
        );
        check(b"PR", "a PROXY header: ");
        check(b"P", "a PROXY header or HTTP");
        check(b"POST / HTTP/1.1\r\n", "HTTP");
        check(b"GET /mqtt HTTP/1.1\r\n", "HTTP or WebSocket");
        check(b"G", "HTTP");
        check(
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11",
            "a PROXY header of version 2",
        );
        check(b"\x16\x03\x01", "TLS");
        check(b"\xC0\0", "neither");
        check(b"SSH-2.0-OpenSSH", "neither");
        check(b"GE\0", "neither");
    }
}
