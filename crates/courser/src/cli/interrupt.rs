//! Ends of commands by SIGINT and SIGTERM that have something to say to the broker before they go: without DISCONNECT it would take
//! the connection for lost and publish the will.
//!
//! The command's own thread waits in blocking calls. A second one waits for the signal and wakes it up by what was left with
//! [`Interrupt::wakes`]; it then sees [`Interrupt::ending`] and ends in its own way. What does not end in time is ended.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use courser_client::{Client, ClientError, Stopper};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Exit;

/// How long a command may take for its good-bye. A second signal ends it at once.
const GOOD_BYE_MAX: Duration = Duration::from_secs(2);

type Waker = Box<dyn Fn() + Send>;

#[derive(Default)]
struct State {
    ending: Option<Exit>,
    wakers: Vec<Waker>,
    /// Of the client that there is now.
    client: Option<Stopper>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when a signal comes.
    ended: Condvar,
}

/// Whether somebody has ended the command.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<Shared>);

impl Interrupt {
    /// Watches for both signals from now on. Until there is something to wake they end the process at once.
    ///
    /// # Errors
    /// When the system does not let it.
    pub(crate) fn watch() -> Result<Self, ClientError> {
        let interrupt = Self(Arc::default());
        let mine = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ClientError::Io)?;
        let signals = runtime.block_on(async { Signals::new() });
        let mut signals = signals.map_err(ClientError::Io)?;
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    let exit = signals.next().await;
                    if mine.end(exit) {
                        let again = tokio::time::timeout(GOOD_BYE_MAX, signals.next());
                        let _ = again.await;
                    }
                    std::process::exit(exit as i32);
                });
            })
            .map_err(ClientError::Io)?;
        Ok(interrupt)
    }

    /// `wake` is called when a signal comes; at once if one has come.
    pub(crate) fn wakes(&self, wake: impl Fn() + Send + 'static) {
        let mut state = self.state();
        if state.ending.is_some() {
            wake();
        }
        state.wakers.push(Box::new(wake));
    }

    /// Ends the waits of a client, and no longer of one that was named before it.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub(crate) fn stops(&self, client: &Client) -> Result<(), ClientError> {
        let stopper = client.stopper()?;
        let mut state = self.state();
        if state.ending.is_some() {
            stopper.stop();
        }
        state.client = Some(stopper);
        Ok(())
    }

    /// Rests for a time, and no longer when a signal comes.
    pub(crate) fn rest(&self, time: Duration) {
        let rests = |state: &mut State| state.ending.is_none();
        let ended = self.0.ended.wait_timeout_while(self.state(), time, rests);
        drop(ended.unwrap_or_else(PoisonError::into_inner));
    }

    /// How the command is to end, once a signal has come.
    pub(crate) fn ending(&self) -> Option<Exit> {
        self.state().ending
    }

    /// What came of the command's work: whatever failed after a signal failed for it, and the client says good-bye.
    ///
    /// # Errors
    /// Of the work, where no signal has come; and when the good-bye cannot be sent.
    pub(crate) fn leave(
        &self,
        client: Client,
        worked: Result<Exit, ClientError>,
    ) -> Result<Exit, ClientError> {
        match (self.ending(), worked) {
            (Some(exit), _) => {
                // The broker may have gone first.
                let _ = client.disconnect();
                Ok(exit)
            }
            (None, Ok(exit)) => client.disconnect().map(|()| exit),
            (None, Err(error)) => Err(error),
        }
    }

    /// True when there was somebody to wake.
    fn end(&self, exit: Exit) -> bool {
        let mut state = self.state();
        state.ending = Some(exit);
        state.wakers.iter().for_each(|wake| wake());
        state.client.iter().for_each(Stopper::stop);
        self.0.ended.notify_all();
        !state.wakers.is_empty() || state.client.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}
