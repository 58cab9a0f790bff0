//! What a running server says about what happens to it: one line an event on standard error, as text or JSON.
//!
//! Every line has the key `event`, whose values are stable words, beside `time`, `level` and the fields of the event. A thread of its own
//! writes the lines, so that no shard waits for whoever reads them; what does not fit into the bounded queue before it is dropped,
//! and how much that was is a line as soon as there is room again. Values come from clients too: control characters, marks that
//! turn the direction of writing and the like are escaped, and long values are cut.

mod line;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use courser_settings::{LogFormat, LogLevel, Settings};
use jiff::Timestamp;
use tracing::subscriber::{Interest, SetGlobalDefaultError, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use self::line::Fields;

/// Name of the field that has a JSON object: its members are fields of the line where that is JSON. Where it is text, for people, they stand
/// in the message only. For events whose fields are known at run time.
pub(crate) const FACTS: &str = "facts";
/// Lines that may wait for whoever reads standard error.
const LINES_MAX: usize = 4_096;
/// How long the end of the process waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(2);
/// Events of others (libraries) are of interest from this level on.
const LEVEL_OF_OTHERS: u8 = rank(Level::WARN);

/// How the log is written now, and what was lost of it.
#[derive(Debug)]
struct Shared {
    /// See [`rank`].
    level: AtomicU8,
    is_json: std::sync::atomic::AtomicBool,
    /// Lines that were dropped and not told of yet.
    dropped: AtomicU64,
}

/// For the thread that writes.
enum Note {
    Line(String),
    /// Answer once all before this is written.
    Flush(SyncSender<()>),
}

/// The log of a server. Dropped, it waits until what was said is written.
#[derive(Debug)]
pub(crate) struct Log {
    shared: Arc<Shared>,
    notes: SyncSender<Note>,
}

/// 1 for errors, more for what is less important.
const fn rank(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

const fn rank_of(level: LogLevel) -> u8 {
    match level {
        LogLevel::Error => 1,
        LogLevel::Warn => 2,
        LogLevel::Info => 3,
        LogLevel::Debug => 4,
    }
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// Its thread.
    #[error("cannot start the thread that writes the log")]
    Thread(#[source] io::Error),
    /// There is one already.
    #[error("the process has a log already")]
    Second(#[from] SetGlobalDefaultError),
}

impl Log {
    /// Begins to write events of the process to standard error.
    ///
    /// # Errors
    /// Without its thread, or when the process has a log already.
    pub(crate) fn start(settings: &Settings) -> Result<Self, LogError> {
        let log = Self::to(settings, io::stderr()).map_err(LogError::Thread)?;
        set_global_default(tracing_subscriber::registry().with(log.lines()))?;
        let shared = Arc::clone(&log.shared);
        std::panic::set_hook(Box::new(move |panic| {
            // At once: the process may end by this.
            let _ = io::stderr().write_all(panic_line(&shared, panic).as_bytes());
        }));
        Ok(log)
    }

    fn to(settings: &Settings, out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            level: AtomicU8::new(0),
            is_json: false.into(),
            dropped: AtomicU64::new(0),
        });
        let (notes, taken) = sync_channel(LINES_MAX);
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(&of_thread, &taken, out))?;
        let log = Self { shared, notes };
        log.set(settings);
        Ok(log)
    }

    /// The present form and level.
    pub(crate) fn set(&self, settings: &Settings) {
        let is_json = match settings.log.format {
            LogFormat::Text => false,
            LogFormat::Json => true,
        };
        self.shared.is_json.store(is_json, Ordering::Relaxed);
        let level = rank_of(settings.log.level);
        self.shared.level.store(level, Ordering::Relaxed);
    }

    fn lines(&self) -> Lines {
        Lines {
            shared: Arc::clone(&self.shared),
            notes: self.notes.clone(),
        }
    }

    /// Waits until everything is written that was said before.
    fn flush(&self) {
        let (written, waits) = sync_channel(1);
        if self.notes.try_send(Note::Flush(written)).is_ok() {
            // Nobody may read standard error: the process ends all the same.
            let _ = waits.recv_timeout(PATIENCE);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Shared {
    fn is_json(&self) -> bool {
        self.is_json.load(Ordering::Relaxed)
    }
}

/// Makes lines of events.
struct Lines {
    shared: Arc<Shared>,
    notes: SyncSender<Note>,
}

impl Lines {
    fn say(&self, line: String) {
        if self.notes.try_send(Note::Line(line)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    /// Asked for each event, because the level may change. Events are rare: nothing is one a message.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let level = self.shared.level.load(Ordering::Relaxed);
        let most = match metadata.target().starts_with("courser") {
            true => level,
            false => level.min(LEVEL_OF_OTHERS),
        };
        metadata.is_event() && rank(*metadata.level()) <= most
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::of(metadata.target());
        event.record(&mut fields);
        self.say(fields.line(Timestamp::now(), *metadata.level(), self.shared.is_json()));
    }
}

/// Writes lines until nobody can say any more. One that cannot be written is lost: there is nowhere to say so.
fn write(shared: &Shared, notes: &Receiver<Note>, mut out: impl Write) {
    while let Ok(note) = notes.recv() {
        match note {
            Note::Line(line) => {
                let _ = out.write_all(line.as_bytes());
            }
            Note::Flush(written) => {
                let _ = out.flush();
                let _ = written.send(());
            }
        }
        let dropped = shared.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let mut fields = Fields::of("courser");
            fields.add("event", "log_lines_dropped".into());
            fields.add("lines", dropped.into());
            fields.add(
                "message",
                "whoever reads the log was slower than what happened".into(),
            );
            let line = fields.line(Timestamp::now(), Level::WARN, shared.is_json());
            let _ = out.write_all(line.as_bytes());
        }
    }
}

/// A fault of the program, in one line like everything else.
fn panic_line(shared: &Shared, panic: &PanicHookInfo<'_>) -> String {
    let mut fields = Fields::of("courser");
    fields.add("event", "panic".into());
    let current = thread::current();
    fields.add("thread", current.name().unwrap_or("unnamed").into());
    if let Some(place) = panic.location() {
        fields.add("place", place.to_string().into());
    }
    let backtrace = std::backtrace::Backtrace::capture();
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        fields.add_whole("backtrace", backtrace.to_string());
    }
    let message = panic.payload_as_str().unwrap_or("no text");
    fields.add("message", message.into());
    fields.line(Timestamp::now(), Level::ERROR, shared.is_json())
}
