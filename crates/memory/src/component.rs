//! Who allocates: the closed list of components, and the scope that names the current one.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

/// A part of the broker whose allocations are counted on their own.
///
/// The list is closed so that the counters are a fixed array: no look-up and no allocation while counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Component {
    /// All that runs outside of any [`Scope`]: the start, and threads that name none.
    Other,
    /// Sockets: accepting them, TLS, reading, codecs and the fronts of sessions, with what a publish does at once.
    Connections,
    /// Receive buffers.
    Receive,
    /// Bytes that are written to sockets.
    Output,
    /// The index of filters that all shards read.
    Router,
    /// Entries of partitions as they are proposed and applied: streams, stored and retained messages, groups.
    Partitions,
    /// Batches between shards, and what is done with them.
    Rings,
    /// The threads of the log: writer, reader, cleaner, scrub, backups.
    Log,
    /// Users and roles, and passwords as they are compared.
    Access,
    /// Operators: their questions, the API, metrics.
    Control,
}

impl Component {
    /// How many components there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every component, in the order of their counters.
    pub const ALL: [Self; 10] = [
        Self::Other,
        Self::Connections,
        Self::Receive,
        Self::Output,
        Self::Router,
        Self::Partitions,
        Self::Rings,
        Self::Log,
        Self::Access,
        Self::Control,
    ];

    /// The word for this component in reports and metric labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Connections => "connections",
            Self::Receive => "receive",
            Self::Output => "output",
            Self::Router => "router",
            Self::Partitions => "partitions",
            Self::Rings => "rings",
            Self::Log => "log",
            Self::Access => "access",
            Self::Control => "control",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// The position in `ALL` is the index of the counters.
const _: () = {
    let mut at = 0;
    while at < Component::COUNT {
        assert!(Component::ALL[at].index() == at);
        at += 1;
    }
};

thread_local! {
    // Has no destructor, so it can be read at any time of a thread's life, also by the allocator at its very end.
    static CURRENT: Cell<Component> = const { Cell::new(Component::Other) };
}

/// The component that this thread's allocations are counted for at the moment.
pub(crate) fn current() -> Component {
    CURRENT.get()
}

/// Counts the allocations of this thread for one component until it is dropped; then the component before it
/// counts again. Scopes nest.
///
/// Cost: two thread-local stores. Do not hold one over an `.await`: other tasks of the thread would be counted too.
#[must_use = "the scope ends when it is dropped"]
#[derive(Debug)]
pub struct Scope {
    previous: Component,
    // The guard restores a value of its own thread.
    not_send: PhantomData<*const ()>,
}

impl Scope {
    /// Starts to count for `component`.
    pub fn enter(component: Component) -> Self {
        Self {
            previous: CURRENT.replace(component),
            not_send: PhantomData,
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}
