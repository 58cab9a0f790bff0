//! Who has an address that somebody else wants.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

use procfs::net::{TcpNetEntry, TcpState, tcp, tcp6};
use procfs::process::{FDTarget, Process, all_processes};

/// The process that listens at an address, in words: `process 4711 (mosquitto)`, or `another process` where the kernel does not say, as
/// of processes of other users. Looks at all processes: for an error, once.
#[must_use]
pub fn holder(address: SocketAddr) -> String {
    find(address).unwrap_or_else(|| "another process".to_owned())
}

fn find(address: SocketAddr) -> Option<String> {
    let sockets: Vec<u64> = [tcp(), tcp6()]
        .into_iter()
        .flatten()
        .flatten()
        .filter(|it| is_in_the_way(it, address))
        .map(|it| it.inode)
        .collect();
    let has =
        |target: &FDTarget| matches!(target, FDTarget::Socket(inode) if sockets.contains(inode));
    let mut processes = all_processes().ok()?.flatten();
    let process = processes.find(|process| {
        let files = process.fd().into_iter().flatten().flatten();
        files.into_iter().any(|file| has(&file.target))
    })?;
    in_words(&process)
}

fn in_words(process: &Process) -> Option<String> {
    let name = process.stat().ok()?.comm;
    // A process names itself: nothing of it may move somebody's terminal.
    Some(format!(
        "process {} ({})",
        process.pid,
        name.escape_default()
    ))
}

/// The same of a Unix socket. None: nobody listens on it.
pub(super) fn socket_holder(path: &Path) -> Option<String> {
    let connected = UnixStream::connect(path).ok()?;
    // Those of whoever listens.
    let process = rustix::net::sockopt::socket_peercred(&connected)
        .ok()
        .and_then(|found| Process::new(found.pid.as_raw_nonzero().get()).ok())
        .and_then(|process| in_words(&process));
    Some(process.unwrap_or_else(|| "another process".to_owned()))
}

/// Also one that listens at every address of the port.
fn is_in_the_way(entry: &TcpNetEntry, address: SocketAddr) -> bool {
    let local = entry.local_address;
    entry.state == TcpState::Listen
        && local.port() == address.port()
        && (local.ip() == address.ip()
            || local.ip().is_unspecified()
            || address.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::holder;

    #[test]
    fn the_process_that_listens_is_named() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("it has an address");
        let process = format!("process {} (", std::process::id());
        assert!(holder(address).starts_with(&process), "{}", holder(address));
        drop(socket);
        assert_eq!(holder(address), "another process", "nobody has it any more");
    }

    #[test]
    fn one_that_listens_everywhere_is_in_the_way() {
        let socket = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = socket.local_addr().expect("it has an address").port();
        let found = holder(([127, 0, 0, 1], port).into());
        assert!(found.contains(&std::process::id().to_string()), "{found}");
    }
}
