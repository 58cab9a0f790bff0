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
    /// All that runs outside of any [`Scope`].
    Other,
    /// Connection state: sockets, codecs, fronts of sessions.
    Connections,
    /// Receive buffers.
    Receive,
    /// Bytes that wait to be written to sockets.
    Output,
    /// Topic tries and match lists.
    Router,
    /// Streams, subscriptions and their outcomes.
    Streams,
    /// Stored messages.
    Records,
    /// Retained messages and their index.
    Retained,
    /// Rings between shards.
    Rings,
    /// Start-up, settings, metrics and the admin interface.
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
        Self::Streams,
        Self::Records,
        Self::Retained,
        Self::Rings,
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
            Self::Streams => "streams",
            Self::Records => "records",
            Self::Retained => "retained",
            Self::Rings => "rings",
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
