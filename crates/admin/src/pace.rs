//! A connection that ends when its reader takes next to nothing of an answer: what waits for it is memory.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a reader may take for [`PACE_BYTES`] while something waits for it.
const STALL_MAX: Duration = Duration::from_secs(10);
/// What it has to take in that time, unless it takes all that there is.
const PACE_BYTES: usize = 64 * 1024;

/// A stream whose writes fail once the other end does not take them.
#[derive(Debug)]
pub(crate) struct Paced<S> {
    stream: S,
    stall_max: Duration,
    /// When it is too late; it runs while [`Self::taken`] says something.
    late: Pin<Box<Sleep>>,
    /// Bytes that were taken since something has waited; none: nothing waits.
    taken: Option<usize>,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self::within(stream, STALL_MAX)
    }

    /// With another time than ours.
    fn within(stream: S, stall_max: Duration) -> Self {
        Self {
            stream,
            stall_max,
            late: Box::pin(sleep(stall_max)),
            taken: None,
        }
    }

    fn pace(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            let bytes = written.as_ref().map_or(0, |bytes| *bytes);
            let taken = self.taken.map(|taken| taken.saturating_add(bytes));
            self.taken = taken.filter(|taken| *taken < PACE_BYTES);
            return Poll::Ready(written);
        }
        if self.taken.is_none() {
            self.taken = Some(0);
            self.late.as_mut().reset(Instant::now() + self.stall_max);
        }
        let late = self.late.as_mut().poll(context);
        late.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.pace(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.pace(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Whoever writes flushes when all of it is written: nothing waits any more.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.taken = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    const SOON: Duration = Duration::from_millis(200);

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn a_reader_that_takes_next_to_nothing_is_not_waited_for() {
        block_on(async {
            for drop_by_drop in [false, true] {
                let (mut reader, stream) = duplex(1024);
                let mut stream = Paced::within(stream, SOON);
                let written = stream.write_all(&[0; 4096]);
                let read = async {
                    loop {
                        sleep(SOON / 8).await;
                        if drop_by_drop {
                            reader.read_u8().await.expect("it is there");
                        }
                    }
                };
                tokio::select! {
                    written = written => {
                        let error = written.expect_err("it does not fit");
                        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    }
                    () = read => unreachable!("it goes on for ever"),
                }
            }
        });
    }

    #[test]
    fn whoever_reads_is_waited_for_and_so_is_who_says_nothing() {
        block_on(async {
            let (mut reader, stream) = duplex(PACE_BYTES);
            let mut stream = Paced::within(stream, SOON);
            let all = vec![0; 8 * PACE_BYTES];
            let read = async {
                let mut part = vec![0; PACE_BYTES];
                for _ in 0..8 {
                    sleep(SOON / 2).await;
                    reader.read_exact(&mut part).await.expect("it is there");
                }
            };
            let (written, ()) = tokio::join!(stream.write_all(&all), read);
            written.expect("all is taken");
            stream.flush().await.expect("nothing waits");
            sleep(2 * SOON).await;
            stream.write_all(&[0; 16]).await.expect("there is room");
        });
    }
}
