//! `courser server`: starts the broker, says where it listens, and stops it on a signal.

mod confine;
mod greeting;
mod progress;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use courser_admin::{AdminError, BindError, Reloads};
use courser_broker::{
    Anonymous, Authentication, Broker, Config, DiskFailure, FolderError, ListenError, StartError,
    StationsError, Status, StopError, find_taken, with_causes,
};
use courser_settings::{Errors, LogFormat, Resolved};
use rustix::process::{self as system, Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::exit::{Exit, usage};
use crate::cli::settings::{SettingFlags, fault_json, settings_help};
use crate::init;
use crate::logging::{FACTS, Log};
use crate::operators;
use crate::preflight::{self, BACKUP_FOLDERS, Files};
use crate::reload::{HeldTo, Running, in_force};

use self::confine::{Confined, confine, data_folder};
pub(crate) use self::greeting::Said;
use self::greeting::{Greeting, counted};

/// Descriptors that a broker needs beside its connections.
const DESCRIPTORS_BESIDE: u64 = 64;
/// How often it is checked that all threads run.
const LOOK: Duration = Duration::from_millis(100);
/// The same during the start, whose end somebody waits for.
const LOOK_STARTING: Duration = Duration::from_millis(2);
/// How often a start that takes long says so.
const PROGRESS: Duration = Duration::from_secs(1);

/// Flags of `courser server`.
#[derive(Args, Debug)]
#[command(after_long_help = settings_help())]
pub(crate) struct Server {
    #[command(flatten)]
    flags: SettingFlags,
    /// Let anyone who can reach an address connect
    #[arg(long)]
    insecure_anonymous: bool,
}

/// Runs until a signal comes.
pub(crate) fn run(arguments: &Server) -> Exit {
    serve(arguments).unwrap_or_else(|exit| exit)
}

/// All steps, up to the first that ends it.
fn serve(arguments: &Server) -> Result<Exit, Exit> {
    let anonymous = match arguments.insecure_anonymous {
        true => Anonymous::Anywhere,
        false => Anonymous::ThisMachine,
    };
    let resolved = load(&arguments.flags, anonymous)?;
    let settings = resolved.settings.clone();
    let format = settings.log.format;
    let taken = find_taken(&settings);
    let (log, files) = begin_log(&resolved)?;
    tell_unread(&arguments.flags);
    let (reloader, reloads) = courser_admin::reloader(in_force(&resolved, Vec::new()));
    let held_to = HeldTo { anonymous, files };
    let mut running = Running::new(arguments.flags.clone(), resolved, log, held_to);
    if let Some(error) = taken {
        return Err(cannot_start(format, &running, &StartError::Listen(error)));
    }
    let mut config = Config::new(settings.clone());
    config.anonymous = anonymous;
    let capped = cap_connections(&mut config);
    raise(Resource::Fsize);
    let (shards, memory_max) = (config.shards, config.memory_max);
    // Before the broker, so that a signal during its start is not lost.
    let (runtime, signals) = watch_signals(format)?;
    let began = Instant::now();
    let broker = Broker::start(config).map_err(|error| cannot_start(format, &running, &error))?;
    let operators = match operators::start(&settings, broker.control(), reloader) {
        Ok(operators) => operators,
        Err(error) => return Err(stop_unserved(broker, format, &error)),
    };
    running.token = operators.token();
    let greeting = Greeting {
        broker: &broker,
        operators: &operators,
        memory_max,
        shards,
        data: data_folder(&settings).map(Path::to_owned),
        settings: &settings,
        capped,
        format,
        began,
    };
    greeting.tell(greeting.beginning());
    // Without a service manager that asked for it this is nothing; with one that does not answer it changes nothing.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let mut orders = Orders {
        signals,
        running,
        reloads,
    };
    let reason = runtime.block_on(wait(&mut orders, &greeting));
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    let exit = stop(broker, reason);
    // Until the end, so that who asks hears that the broker is being stopped; and the log, which has the last word.
    drop(operators);
    drop(orders);
    Ok(exit)
}

/// The settings that count, if a server can be run with them.
fn load(flags: &SettingFlags, anonymous: Anonymous) -> Result<Resolved, Exit> {
    let resolved = flags
        .resolve()
        .map_err(|errors| usage(&errors.to_string()))?;
    // Files are looked at once, when they are loaded.
    let mut faults = preflight::faults(&resolved, anonymous, Files::PassedOver);
    faults.extend(preflight::memory(&resolved));
    faults.extend(preflight::places(&resolved));
    if faults.is_empty() {
        Ok(resolved)
    } else {
        Err(usage(&Errors(faults).to_string()))
    }
}

/// Gives up what a server has no use for and begins the log, in this order: threads that are there already would stay free.
/// Says too how files can be looked at from now on.
fn begin_log(resolved: &Resolved) -> Result<(Log, Files), Exit> {
    let confined = confine(resolved).map_err(|error| {
        complain_without_log(&with_causes(&error));
        Exit::Refused
    })?;
    let log = Log::start(&resolved.settings).map_err(|error| {
        complain_without_log(&with_causes(&error));
        Exit::Internal
    })?;
    confined.tell();
    for warning in &resolved.warnings {
        let facts = fault_json(warning).to_string();
        tracing::warn!(event = "setting_deprecated", { FACTS } = facts, "{warning}");
    }
    let mut missing = preflight::missing(resolved);
    // These have an event of their own.
    missing.retain(|doubt| doubt.key.as_deref() != Some(BACKUP_FOLDERS));
    let doubtful = preflight::doubtful(resolved);
    for doubt in resolved.doubts.iter().chain(&missing).chain(&doubtful) {
        let facts = fault_json(doubt).to_string();
        tracing::warn!(event = "setting_doubtful", { FACTS } = facts, "{doubt}");
    }
    let files = match confined {
        Confined::To { .. } => Files::LookedConfined,
        Confined::Unknown | Confined::Off => Files::Looked,
    };
    Ok((log, files))
}

/// No more connections than the process may have descriptors for; how many, if that is fewer than was asked for.
fn cap_connections(config: &mut Config) -> Option<usize> {
    let descriptors = raise(Resource::Nofile).saturating_sub(DESCRIPTORS_BESIDE);
    let allowed = usize::try_from(descriptors).unwrap_or(usize::MAX);
    config.connections_cap = allowed;
    let capped = (config.connections_max > allowed).then_some(allowed);
    config.connections_max = config.connections_max.min(allowed);
    capped
}

/// The runtime that waits for signals, and what comes of them.
fn watch_signals(format: LogFormat) -> Result<(Runtime, Signals), Exit> {
    let cannot_wait = |error| internal(format, &format!("cannot wait for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(cannot_wait)?;
    let signals = runtime.block_on(async { Signals::new() });
    Ok((runtime, signals.map_err(cannot_wait)?))
}

/// Without its operators a broker is not left running.
fn stop_unserved(broker: Broker, format: LogFormat, error: &AdminError) -> Exit {
    let exit = cannot_serve_operators(format, error);
    match broker.stop() {
        Ok(_) => exit,
        Err(error) => internal(format, &with_causes(&error)),
    }
}

/// The signals that a broker knows.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// Nobody waits for it: a write that would make a file larger than this process may have fails then, where the system would end the process.
    _file_too_large: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            _file_too_large: signal(SignalKind::from_raw(system::Signal::XFSZ.as_raw()))?,
        })
    }
}

/// Why a broker stops.
#[derive(Clone, Copy)]
enum Reason {
    Signal,
    Failure,
}

/// What a running server obeys.
struct Orders {
    signals: Signals,
    running: Running,
    /// Those of operators.
    reloads: Reloads,
}

/// Says how far the start has come, and waits for a reason to stop.
async fn wait(orders: &mut Orders, greeting: &Greeting<'_>) -> Reason {
    let Orders {
        signals,
        running,
        reloads,
    } = orders;
    let broker = greeting.broker;
    let mut start = Start {
        said: greeting.began,
        is_over: false,
    };
    loop {
        let look = if start.is_over { LOOK } else { LOOK_STARTING };
        tokio::select! {
            _ = signals.terminate.recv() => return Reason::Signal,
            _ = signals.interrupt.recv() => return Reason::Signal,
            _ = signals.hangup.recv() => {
                // What is wrong is in the log.
                let _ = running.reload(broker);
                reloads.tell(running.in_force());
            },
            asked = reloads.next() => {
                let answer = running.reload(broker);
                reloads.tell(running.in_force());
                asked.answer(answer);
            },
            () = tokio::time::sleep(look) => {
                if broker.has_failed() || matches!(broker.status(), Status::Failed(_)) {
                    return Reason::Failure;
                }
                if !start.is_over {
                    start.look(broker, greeting);
                }
            }
        }
    }
}

/// What was said of a start.
struct Start {
    said: Instant,
    is_over: bool,
}

impl Start {
    /// Says what is new; while nothing is, that it goes on.
    fn look(&mut self, broker: &Broker, greeting: &Greeting<'_>) {
        match broker.status() {
            Status::Serving => {
                self.is_over = true;
                take_accounts(greeting);
                return greeting.tell(greeting.end());
            }
            Status::Failed(_) => return,
            Status::Reading | Status::Recovering => {}
        }
        if self.said.elapsed() >= PROGRESS
            && let Some(progress) = broker.control().progress()
        {
            self.said = Instant::now();
            let seconds = greeting.began.elapsed().as_secs();
            greeting.tell(vec![progress::goes_on(progress, seconds)]);
        }
    }
}

/// What `courser init` has written is no default: whoever expects it to be runs with other accounts and listeners than are meant.
fn tell_unread(flags: &SettingFlags) {
    if flags.config.is_none() && Path::new(init::FILE).is_file() {
        tracing::warn!(
            event = "config_not_read",
            file = init::FILE,
            "{0} is in this folder and is not read; with it: courser server --config {0}",
            init::FILE
        );
    }
}

/// The first accounts. Without them nobody comes in who has to log in, so a file that is not taken is told and nothing else.
fn take_accounts(greeting: &Greeting<'_>) {
    match greeting.broker.take_bootstrap() {
        Ok(users) => {
            let ready = |user: &courser_access::UserName| {
                let text = format!("account {} is ready", user.as_str().escape_debug());
                Said::new("account_ready", text).with(json!({"user": user.as_str()}))
            };
            greeting.tell(users.iter().map(ready).collect());
        }
        Err(error) => tracing::error!(
            event = "bootstrap_refused",
            error = &error as &dyn std::error::Error,
            "no account was made"
        ),
    }
    tell_no_accounts(greeting);
}

/// Where accounts are asked for and there are none, a broker that is ready serves nobody, and none of its clients can say why.
fn tell_no_accounts(greeting: &Greeting<'_>) {
    let listeners = greeting.broker.control().listeners();
    let asking = listeners.iter().filter_map(|listener| {
        (listener.authentication == Authentication::Accounts).then_some(&*listener.name)
    });
    let asking = asking.collect::<Vec<_>>().join(", ");
    if asking.is_empty() || greeting.broker.access().table().users().len() > 0 {
        return;
    }
    let text = format!(
        "nobody can log in: there are no accounts, and these listeners ask for one: {asking}; make one with courser user add, or stop and run courser init"
    );
    if greeting.format == LogFormat::Text {
        greeting.tell(vec![Said::new("no_accounts", text.clone())]);
    }
    tracing::warn!(event = "no_accounts", listeners = asking, "{text}");
}

fn stop(broker: Broker, reason: Reason) -> Exit {
    match broker.stop() {
        Ok(summary) => {
            let counters = summary.counters();
            let words = counters
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            let words: Vec<String> = words.collect();
            let facts = counted(counters).to_string();
            tracing::info!(
                event = "stopped",
                { FACTS } = facts,
                "stopped; {}",
                words.join(" ")
            );
            match reason {
                Reason::Signal => Exit::Done,
                Reason::Failure => Exit::Internal,
            }
        }
        Err(error) => stop_failed(&error),
    }
}

/// What supervisors and scripts go by: a fault of the program is worth a start, a disk that failed first somebody who looks.
fn stop_failed(error: &StopError) -> Exit {
    match error {
        StopError::Disk(failure) => disk_failed(failure),
        StopError::Shard { .. } | StopError::StationPanicked | StopError::Panicked { .. } => {
            tracing::error!(event = "stop_failed", "{}", with_causes(error));
            Exit::Internal
        }
    }
}

/// What is on the disk is checked at the next start; trying again at once would only hide what happened.
fn disk_failed(failure: &DiskFailure) -> Exit {
    match failure {
        DiskFailure::Io(text) => {
            tracing::error!(
                event = "disk_failed",
                error = text,
                "stopped acknowledging: nothing that was acknowledged is lost. Look at the disk (dmesg, smartctl, df) before the next \
                 start, which checks the log"
            );
            Exit::Disk
        }
        DiskFailure::Refused(text) => {
            tracing::error!(event = "log_refused", "{text}");
            Exit::Refused
        }
    }
}

/// Why a server does not come up: to people as every command says it, to programs as a line of the log.
fn complain(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => complain_without_log(text),
        LogFormat::Json => tracing::error!(event = "start_failed", "{text}"),
    }
}

/// The same before there is a log, whatever form it will have.
fn complain_without_log(text: &str) {
    eprintln!("courser: {text}");
}

fn cannot_start(format: LogFormat, running: &Running, error: &StartError) -> Exit {
    complain(format, &running.placed(error.setting(), with_causes(error)));
    start_failed(error)
}

fn start_failed(error: &StartError) -> Exit {
    match error {
        StartError::Folder(FolderError::Sync { .. })
        | StartError::Log(StationsError::Given(FolderError::Sync { .. })) => Exit::Disk,
        StartError::Listen(ListenError::InUse { .. } | ListenError::SocketInUse { .. })
        | StartError::Folder(FolderError::InUse { .. }) => Exit::Conflict,
        StartError::Listen(
            ListenError::PublicMqtt { .. }
            | ListenError::Public { .. }
            | ListenError::Proxied { .. },
        )
        | StartError::Memory(_) => Exit::Usage,
        StartError::Listen(
            ListenError::Denied { .. }
            | ListenError::Unix { .. }
            | ListenError::NotActivated { .. }
            | ListenError::Named { .. }
            | ListenError::Other { .. },
        )
        | StartError::Certificate(_)
        | StartError::Tokens(_)
        | StartError::Folder(_)
        | StartError::Log(_)
        | StartError::Random(_)
        | StartError::Thread(_) => Exit::Refused,
    }
}

fn cannot_serve_operators(format: LogFormat, error: &AdminError) -> Exit {
    complain(format, &with_causes(error));
    match error {
        AdminError::Bind(BindError::InUse { .. }) => Exit::Conflict,
        AdminError::Bind(_) | AdminError::Token(_) | AdminError::Thread(_) => Exit::Refused,
    }
}

fn internal(format: LogFormat, message: &str) -> Exit {
    complain(format, message);
    Exit::Internal
}

/// Raises a limit of this process as far as is allowed and gives what is then allowed.
fn raise(resource: Resource) -> u64 {
    let Rlimit { current, maximum } = getrlimit(resource);
    let raised = setrlimit(
        resource,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
    // None is no limit.
    if raised.is_ok() { maximum } else { current }.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m46_a_start_of_which_a_sync_failed_ends_with_74() {
        let failed = || {
            (
                Path::new("data").to_owned(),
                std::io::ErrorKind::Other.into(),
            )
        };
        let sync = || {
            let (path, source) = failed();
            FolderError::Sync { path, source }
        };
        let (path, source) = failed();
        for (error, code) in [
            (StartError::Folder(sync()), 74),
            (StartError::Log(StationsError::Given(sync())), 74),
            (StartError::Folder(FolderError::Io { path, source }), 1),
        ] {
            assert_eq!(start_failed(&error) as u8, code, "{error}");
        }
    }

    #[test]
    fn m50_a_server_that_has_panicked_ends_with_70_and_one_whose_disk_failed_with_74() {
        let text = String::new;
        for (error, code) in [
            (StopError::Panicked { shard: 1 }, 70),
            (StopError::StationPanicked, 70),
            (
                StopError::Shard {
                    shard: 1,
                    source: std::io::ErrorKind::Other.into(),
                },
                70,
            ),
            (StopError::Disk(DiskFailure::Io(text())), 74),
            (StopError::Disk(DiskFailure::Refused(text())), 1),
        ] {
            assert_eq!(stop_failed(&error) as u8, code, "{error}");
        }
    }
}
