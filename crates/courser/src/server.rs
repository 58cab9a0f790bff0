//! `courser server`: starts the broker, says where it listens, and stops it on a signal.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use courser_admin::{AdminError, BindError};
use courser_broker::{
    Anonymous, Broker, Config, DiskFailure, FolderError, ListenError, Reread, StartError, Status,
    StopError,
};
use courser_settings::{Keep, ListenerProtocol, Login};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::exit::{Exit, usage};
use crate::cli::settings::SettingFlags;
use crate::operators::{self, Operators};
use crate::reload::Running;

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
pub(crate) struct Server {
    #[command(flatten)]
    flags: SettingFlags,
    /// Let anyone who can reach an address connect
    #[arg(long)]
    insecure_anonymous: bool,
}

/// Runs until a signal comes.
pub(crate) fn run(arguments: &Server) -> Exit {
    let resolved = match arguments.flags.resolve() {
        Ok(resolved) => resolved,
        Err(errors) => return usage(&errors.to_string()),
    };
    for warning in &resolved.warnings {
        eprintln!("courser: warning: {warning}");
    }
    let settings = resolved.settings.clone();
    let running = Running::new(arguments.flags.clone(), resolved);
    let open: Vec<SocketAddr> = settings
        .mqtt
        .listen
        .iter()
        .copied()
        .filter(|address| !address.ip().is_loopback())
        .collect();
    let anonymous = settings.mqtt.authentication == Login::None;
    let only_here = open.is_empty() && (settings.doors.is_empty() || !arguments.insecure_anonymous);
    if let (Some(address), true, false) = (open.first(), anonymous, arguments.insecure_anonymous) {
        return usage(&format!(
            "{address} can be reached from other machines, and nobody has to log in: ask for accounts with mqtt.authentication = \
             \"accounts\" (`courser init --accounts` writes that, and the first one), listen on a loopback address such as \
             127.0.0.1:{port}, or let anyone in with --insecure-anonymous",
            port = address.port()
        ));
    }
    if settings.mqtt.listen.is_empty() && settings.doors.is_empty() {
        return usage(
            "mqtt.listen is empty and there is no [[listener]]: there is nothing to serve; name an address with --mqtt ADDRESS:PORT",
        );
    }
    let data = match settings.data.store {
        Keep::Disk => Some(settings.data.path.clone()),
        Keep::Memory => None,
    };
    let mut config = Config::new(settings.clone());
    if arguments.insecure_anonymous {
        config.anonymous = Anonymous::Anywhere;
    }
    let descriptors = raise_descriptors();
    let allowed =
        usize::try_from(descriptors.saturating_sub(DESCRIPTORS_BESIDE)).unwrap_or(usize::MAX);
    let capped = (config.connections_max > allowed).then_some(allowed);
    config.connections_max = capped.unwrap_or(config.connections_max);
    config.connections_cap = allowed;
    let shards = config.shards;
    let memory_max = config.memory_max;
    // Before the broker, so that a signal during its start is not lost.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return internal(&format!("cannot wait for signals: {error}")),
    };
    let signals = match runtime.block_on(async { Signals::new() }) {
        Ok(signals) => signals,
        Err(error) => return internal(&format!("cannot wait for signals: {error}")),
    };
    let broker = match Broker::start(config) {
        Ok(broker) => broker,
        Err(error) => return cannot_start(&error),
    };
    let operators = match operators::start(&settings, broker.control()) {
        Ok(operators) => operators,
        Err(error) => {
            let exit = cannot_serve_operators(&error);
            return match broker.stop() {
                Ok(_) => exit,
                Err(error) => internal(&chain(&error)),
            };
        }
    };
    let greeting = Greeting {
        broker: &broker,
        operators: &operators,
        memory_max,
        shards,
        data,
        anyone: match (anonymous, only_here) {
            (false, _) => Anyone::LogsIn,
            (true, true) => Anyone::OnThisMachine,
            (true, false) => Anyone::Everywhere,
        },
        capped,
    };
    say(&greeting.beginning());
    // Without a service manager that asked for it this is nothing; with one that does not answer it changes nothing.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let reason = runtime.block_on(wait(signals, running, &greeting));
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    let exit = stop(broker, reason);
    // Until the end, so that who asks hears that the broker is being stopped.
    drop(operators);
    exit
}

/// A closed standard output is no reason not to serve.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Who may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anyone {
    /// Whoever reaches an address.
    Everywhere,
    /// Whoever is on this machine.
    OnThisMachine,
    /// Nobody without an account.
    LogsIn,
}

/// What a started broker says.
struct Greeting<'a> {
    broker: &'a Broker,
    operators: &'a Operators,
    shards: u16,
    /// Bytes that the process may have allocated.
    memory_max: u64,
    /// None where nothing is kept.
    data: Option<PathBuf>,
    anyone: Anyone,
    /// Connections that the limit of descriptors allows, where the settings would allow more.
    capped: Option<usize>,
}

impl Greeting<'_> {
    /// Once it listens.
    fn beginning(&self) -> String {
        let mut text = format!(
            "courser {}, {} shards\n",
            env!("CARGO_PKG_VERSION"),
            self.shards
        );
        for address in self.broker.addresses() {
            let _ = writeln!(text, "MQTT 3.1.1 and 5.0 on {address}");
        }
        for door in self.broker.doors() {
            let below = match door.protocol {
                ListenerProtocol::Mqtt => "",
                ListenerProtocol::Mqtts => " over TLS",
                ListenerProtocol::Ws => " over WebSocket",
                ListenerProtocol::Wss => " over WebSocket and TLS",
            };
            let _ = writeln!(
                text,
                "MQTT 3.1.1 and 5.0{below} on {} ({})",
                door.place, door.name
            );
        }
        text.push_str(&self.operators.greeting());
        match &self.data {
            Some(data) => {
                let _ = writeln!(text, "data: {}", data.display());
            }
            None => text.push_str("data: in memory, nothing survives a stop\n"),
        }
        text.push_str(match self.anyone {
            Anyone::Everywhere => "anonymous: anyone who reaches these addresses may connect\n",
            Anyone::OnThisMachine => "loopback only: anyone on this machine may connect\n",
            Anyone::LogsIn => "accounts: clients log in\n",
        });
        let _ = writeln!(text, "memory: at most {} MiB", self.memory_max >> 20);
        if let Some(connections) = self.capped {
            let _ = writeln!(
                text,
                "at most {connections} connections: the limit of open descriptors (ulimit -n, LimitNOFILE)"
            );
        }
        text
    }

    /// Once it serves, `took` after it began to read.
    fn end(&self, took: Duration) -> String {
        let mut text = match self.broker.recovered() {
            Some(found) => format!("recovered: {found}; all in {} ms\n", took.as_millis()),
            None => String::new(),
        };
        self.damage(&mut text);
        text.push_str("ready\n");
        text
    }
}

impl Greeting<'_> {
    /// What does not serve, and what was given up.
    fn damage(&self, text: &mut String) {
        let state = self.broker.state();
        for accepted in state.accepted.iter().take(DAMAGE_TOLD) {
            let _ = writeln!(text, "LOST, as ordered: {accepted}");
        }
        for aside in &state.set_aside {
            let _ = writeln!(text, "DAMAGED: {aside}");
        }
        for stream in state.stopped.iter().take(DAMAGE_TOLD) {
            let _ = writeln!(text, "DAMAGED: {stream}");
        }
        if state.set_aside.is_empty() && state.stopped.is_empty() {
            return;
        }
        let places = state.stopped_places;
        if let Some(data) = &self.data {
            let _ = writeln!(
                text,
                "DAMAGED: {} partitions are set aside, {places} messages are lost where they are needed; stop, and see: courser repair {}",
                state.set_aside.len(),
                data.display()
            );
        }
    }
}

/// Streams that are named at a start.
const DAMAGE_TOLD: usize = 20;

/// The signals that a broker knows.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// Why a broker stops.
#[derive(Clone, Copy)]
enum Reason {
    Signal,
    Failure,
}

/// Says how far the start has come, and waits for a reason to stop.
async fn wait(mut signals: Signals, mut running: Running, greeting: &Greeting<'_>) -> Reason {
    let broker = greeting.broker;
    let mut start = Start::default();
    loop {
        let look = if start.is_over { LOOK } else { LOOK_STARTING };
        tokio::select! {
            _ = signals.terminate.recv() => return Reason::Signal,
            _ = signals.interrupt.recv() => return Reason::Signal,
            _ = signals.hangup.recv() => {
                reread_certificates(broker);
                match running.reload(broker) {
                Ok(answer) => eprint!("{}", answer.text()),
                Err(errors) => {
                    eprintln!("{errors}\ncourser: settings not reloaded: what was in force stays in force");
                }
            }},
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

/// Says what came of reading certificates again. They are few and small, so nobody waits for long.
fn reread_certificates(broker: &Broker) {
    for (listener, result) in broker.reread_certificates() {
        match result {
            Ok(Reread::Changed) => {
                eprintln!("courser: listener \"{listener}\": new certificates for new connections")
            }
            Ok(Reread::Same) => {
                eprintln!("courser: listener \"{listener}\": the same certificates")
            }
            Err(error) => eprintln!(
                "courser: {}; new connections get the old certificates",
                chain(&error)
            ),
        }
    }
}

/// What was said of a start.
struct Start {
    began: Instant,
    said: Instant,
    is_over: bool,
}

impl Default for Start {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            said: now,
            is_over: false,
        }
    }
}

impl Start {
    /// Says what is new; while nothing is, that it goes on.
    fn look(&mut self, broker: &Broker, greeting: &Greeting<'_>) {
        let what = match broker.status() {
            Status::Serving => {
                self.is_over = true;
                take_accounts(broker);
                return say(&greeting.end(self.began.elapsed()));
            }
            Status::Failed(_) => return,
            Status::Reading => "reading the log",
            Status::Recovering => "recovering sessions and messages",
        };
        if self.said.elapsed() >= PROGRESS {
            self.said = Instant::now();
            say(&format!("{what}, {} s\n", self.began.elapsed().as_secs()));
        }
    }
}

/// The first accounts. Without them nobody comes in who has to log in, so a file that is not taken is told and nothing else.
fn take_accounts(broker: &Broker) {
    match broker.take_bootstrap() {
        Ok(users) => {
            for user in users {
                say(&format!(
                    "account {} is ready\n",
                    user.as_str().escape_debug()
                ));
            }
        }
        Err(error) => eprintln!("courser: {}", chain(&error)),
    }
}

fn stop(broker: Broker, reason: Reason) -> Exit {
    match broker.stop() {
        Ok(summary) => {
            let counters: Vec<String> = summary
                .counters()
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            eprintln!("courser: stopped; {}", counters.join(" "));
            match reason {
                Reason::Signal => Exit::Done,
                Reason::Failure => Exit::Internal,
            }
        }
        Err(StopError::Disk(failure)) => disk_failed(&failure),
        Err(error) => internal(&chain(&error)),
    }
}

/// What is on the disk is checked at the next start; trying again at once would only hide what happened.
fn disk_failed(failure: &DiskFailure) -> Exit {
    match failure {
        DiskFailure::Io(text) => {
            eprintln!(
                "courser: {text}\ncourser: stopped acknowledging: nothing that was acknowledged is lost. Look at the disk (dmesg, \
                 smartctl, df) before the next start, which checks the log"
            );
            Exit::Disk
        }
        DiskFailure::Refused(text) => {
            eprintln!("courser: {text}");
            Exit::Refused
        }
    }
}

fn cannot_start(error: &StartError) -> Exit {
    eprintln!("courser: {}", chain(error));
    match error {
        StartError::Listen(ListenError::InUse { .. })
        | StartError::Folder(FolderError::InUse { .. }) => Exit::Conflict,
        StartError::Listen(ListenError::Public { .. }) => Exit::Usage,
        StartError::Listen(
            ListenError::Denied { .. }
            | ListenError::Unix { .. }
            | ListenError::NotActivated { .. }
            | ListenError::Named { .. }
            | ListenError::Other { .. },
        )
        | StartError::Certificate(_)
        | StartError::Folder(_)
        | StartError::Log(_)
        | StartError::Random(_)
        | StartError::Thread(_) => Exit::Refused,
    }
}

fn cannot_serve_operators(error: &AdminError) -> Exit {
    eprintln!("courser: {}", chain(error));
    match error {
        AdminError::Bind(BindError::InUse { .. }) => Exit::Conflict,
        AdminError::Bind(_) | AdminError::Token(_) | AdminError::Thread(_) => Exit::Refused,
    }
}

fn internal(message: &str) -> Exit {
    eprintln!("courser: {message}");
    Exit::Internal
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Raises the limit of open descriptors as far as is allowed and gives what is then allowed.
fn raise_descriptors() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
    // None is no limit.
    if raised.is_ok() { maximum } else { current }.unwrap_or(u64::MAX)
}
