//! Listening, and serving one connection after the other; all on one thread.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Version, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::AppState;
use crate::access::Caller;
use crate::error::{ApiError, Code};
use crate::pace::Paced;
use crate::routes;
use crate::seats::{Answer, Seat, Seats, Takes};

/// Connections at once over all addresses, and as many over the socket.
const CONNECTIONS_MAX: usize = 64;
/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest life of a connection: a client just makes another one.
const CONNECTION_MAX: Duration = Duration::from_secs(600);
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long a listener rests that could not accept.
const REST: Duration = Duration::from_millis(100);

/// An address that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else has it.
    #[error(
        "{address} is in use by {holder}: stop that one, or serve operators elsewhere with --http ADDRESS:PORT"
    )]
    InUse {
        /// The address.
        address: SocketAddr,
        /// The process, as far as it is known.
        holder: String,
    },
    /// Anything else.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The Unix socket.
    #[error("cannot make the socket {path}")]
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Bound sockets.
#[derive(Debug)]
pub(crate) struct Listeners {
    network: Vec<TcpListener>,
    local: Option<UnixListener>,
}

impl Listeners {
    /// Binds all. Must be called inside a runtime. An IPv6 loopback address is left out on a machine without IPv6 when there is
    /// another address.
    pub(crate) fn bind(addresses: &[SocketAddr], socket: Option<&Path>) -> Result<Self, BindError> {
        let mut network = Vec::new();
        for &address in addresses {
            match bind(address) {
                Ok(listener) => network.push(listener),
                Err(error) if addresses.len() > 1 && is_missing_family(address, &error) => {}
                Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                    return Err(BindError::InUse {
                        address,
                        holder: courser_broker::holder(address),
                    });
                }
                Err(source) => return Err(BindError::Address { address, source }),
            }
        }
        let local = socket.map(bind_socket).transpose()?;
        Ok(Self { network, local })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.network
            .iter()
            .filter_map(|it| it.local_addr().ok())
            .collect()
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn is_missing_family(address: SocketAddr, error: &io::Error) -> bool {
    let code = error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error);
    address.is_ipv6()
        && address.ip().is_loopback()
        && (error.kind() == io::ErrorKind::AddrNotAvailable
            || code == Some(rustix::io::Errno::AFNOSUPPORT))
}

/// What an earlier process left is removed: the folder is locked by this one.
fn bind_socket(path: &Path) -> Result<UnixListener, BindError> {
    let failed = |source| BindError::Socket {
        path: path.to_owned(),
        source,
    };
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = short_path(path)
        .and_then(|(short, _folder)| UnixListener::bind(short))
        .map_err(failed)?;
    // Who connects is asked for in any case; this keeps others from taking seats.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Bytes of a path that every system takes for a socket.
const SOCKET_PATH_MAX: usize = 100;

/// A name for `path` that is short enough for a socket, for as long as the folder is open.
pub(crate) fn short_path(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok((path.to_owned(), None));
    };
    if path.as_os_str().len() <= SOCKET_PATH_MAX {
        return Ok((path.to_owned(), None));
    }
    let folder = File::open(folder)?;
    let short = format!("/proc/self/fd/{}", folder.as_raw_fd());
    Ok((Path::new(&short).join(name), Some(folder)))
}

/// Serves until `stopped` changes.
pub(crate) async fn run(listeners: Listeners, state: AppState, mut stopped: watch::Receiver<()>) {
    let router = routes::router(state);
    let network = Seats::new(CONNECTIONS_MAX);
    for listener in listeners.network {
        tokio::spawn(serve_network(
            listener,
            router.clone(),
            Arc::clone(&network),
        ));
    }
    if let Some(listener) = listeners.local {
        tokio::spawn(serve_local(listener, router));
    }
    let _ = stopped.changed().await;
}

async fn serve_network(listener: TcpListener, router: Router, seats: Arc<Seats>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let caller = Caller::Network { address };
                let seat = seats.take().await;
                tokio::spawn(serve_one(stream, caller, router.clone(), seat));
            }
            Err(_) => sleep(REST).await,
        }
    }
}

async fn serve_local(listener: UnixListener, router: Router) {
    let seats = Seats::new(CONNECTIONS_MAX);
    loop {
        let accepted = listener.accept().await;
        match accepted.and_then(|(stream, _)| Ok((stream.peer_cred()?.uid(), stream))) {
            Ok((uid, stream)) => {
                let caller = Caller::Local { uid };
                let seat = seats.take().await;
                tokio::spawn(serve_one(stream, caller, router.clone(), seat));
            }
            Err(_) => sleep(REST).await,
        }
    }
}

/// One connection; what goes wrong on it is the other end's affair.
async fn serve_one<S>(stream: S, caller: Caller, router: Router, seat: Arc<Seat>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let asked = Arc::clone(&seat);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        let begun = asked.begin(takes(&request));
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(caller);
            let (response, under_way) = match begun {
                Ok(under_way) => (call(router, request).await, under_way),
                Err(under_way) => (busy().into_response(), under_way),
            };
            Ok::<_, Infallible>(response.map(|body| Answer {
                body,
                _under_way: under_way,
            }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Paced::new(stream)), service);
    // It is asked to go only while nothing is under way, and must hear of it before something is.
    tokio::select! {
        biased;
        () = seat.told_to_go() => {}
        _ = timeout(CONNECTION_MAX, connection) => {}
    }
}

/// Whether somebody lives is always told: who watches must not take others that ask for a fault.
fn takes<B>(request: &hyper::Request<B>) -> Takes {
    match request.uri().path() {
        "/healthz" | "/readyz" | "/metrics" => Takes::Moments,
        _ => Takes::ItsTime,
    }
}

fn busy() -> ApiError {
    ApiError::new(
        Code::Busy,
        "as many requests are under way as may be at once",
    )
}

/// HTTP/1.1 wants one host of every request, and an answer of 400 to any other (RFC 9112, 3.2).
fn names_its_host(request: &hyper::Request<Body>) -> bool {
    match request.headers().get_all(header::HOST).iter().count() {
        0 => request.version() < Version::HTTP_11,
        count => count == 1,
    }
}

async fn call(mut router: Router, request: hyper::Request<Body>) -> axum::response::Response {
    use tower_service::Service as _;
    if !names_its_host(&request) {
        let message = "a request of HTTP/1.1 names one host: Host";
        return ApiError::new(Code::BadRequest, message).into_response();
    }
    match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::routing::post;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    const REQUEST: &[u8] = b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    const ANSWERED: &[u8] = b"HTTP/1.1 200 OK";
    /// So often that a choice by chance would be seen.
    const TIMES: usize = 64;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build();
        runtime.expect("a runtime").block_on(future)
    }

    /// A route that counts how often it was ordered to do something.
    fn counting() -> (Router, Arc<AtomicUsize>) {
        let orders = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&orders);
        let order = post(async move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        (Router::new().route("/order", order), orders)
    }

    fn served(stream: DuplexStream, router: &Router, seat: Arc<Seat>) -> impl Future<Output = ()> {
        let caller = Caller::Local { uid: 0 };
        serve_one(stream, caller, router.clone(), seat)
    }

    /// Looks at it once: it is not done.
    async fn begin<T>(future: &mut (impl Future<Output = T> + Unpin)) {
        tokio::select! {
            biased;
            _ = future => panic!("it waits for something"),
            () = std::future::ready(()) => {}
        }
    }

    /// Somebody who waits for the seat may have it, so nothing may begin on the connection: an order that was carried out would have no
    /// answer, and whoever gave it would give it again.
    #[test]
    fn an_order_that_comes_as_its_connection_makes_room_is_not_carried_out() {
        block_on(async {
            for _ in 0..TIMES {
                let (router, orders) = counting();
                let (mut client, stream) = duplex(1024);
                let seats = Seats::new(1);
                let mut connection = pin!(served(stream, &router, seats.take().await));
                begin(&mut connection).await;
                let mut next = pin!(seats.take());
                begin(&mut next).await;
                client.write_all(REQUEST).await.expect("written");
                connection.await;
                assert_eq!(orders.load(Ordering::Relaxed), 0);
                assert_eq!(client.read(&mut [0; 16]).await.expect("closed"), 0);
            }
        });
    }

    #[test]
    fn a_request_without_its_host_is_refused_where_the_version_asks_for_one() {
        let table = [
            ("HTTP/1.1\r\n", "400", 0),
            ("HTTP/1.1\r\nHost: x\r\nHost: x\r\n", "400", 0),
            ("HTTP/1.1\r\nHost: x\r\nHost: y\r\n", "400", 0),
            ("HTTP/1.1\r\nHost: x\r\n", "200", 1),
            ("HTTP/1.0\r\n", "200", 1),
            ("HTTP/1.0\r\nHost: x\r\n", "200", 1),
        ];
        block_on(async {
            for (said, code, done) in table {
                let (router, orders) = counting();
                let (mut client, stream) = duplex(1024);
                let request = format!("POST /order {said}Content-Length: 0\r\n\r\n");
                client.write_all(request.as_bytes()).await.expect("written");
                let seat = Seats::new(1).take().await;
                let mut answer = [0; "HTTP/1.1 ".len() + 3];
                let mut read = pin!(client.read_exact(&mut answer));
                let is_read = tokio::select! {
                    () = served(stream, &router, seat) => false,
                    read = &mut read => read.is_ok(),
                };
                // It may be gone by then, behind its answer.
                assert!(is_read || read.await.is_ok(), "{said:?}");
                assert_eq!(&answer[9..], code.as_bytes(), "{said:?}");
                assert_eq!(orders.load(Ordering::Relaxed), done, "{said:?}");
            }
        });
    }

    #[test]
    fn an_order_that_came_before_is_answered_first() {
        block_on(async {
            let (router, orders) = counting();
            let (mut client, stream) = duplex(1024);
            let seats = Seats::new(1);
            let seat = seats.take().await;
            client.write_all(REQUEST).await.expect("written");
            let (_, _, answer) = tokio::join!(served(stream, &router, seat), seats.take(), async {
                let mut answer = [0; ANSWERED.len()];
                client.read_exact(&mut answer).await.expect("an answer");
                answer
            });
            assert_eq!((orders.load(Ordering::Relaxed), &answer[..]), (1, ANSWERED));
        });
    }
}
