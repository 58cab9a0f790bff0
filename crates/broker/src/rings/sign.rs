//! A sign between the one that looks for work before it sleeps and those that make some.
//!
//! Each side does a store and then a load, with a full fence in between (Dekker):
//!
//! - sleeper: raise the sign, fence, look for work
//! - maker: make work, fence, look at the sign
//!
//! so at least one of them sees what the other did. `tests/sign_model.rs` runs this file under all interleavings.

use super::atomics::{AtomicBool, Ordering, fence};

/// A sign that one side raises before it looks for work, and that the other side takes down after it made some.
#[derive(Debug)]
pub(crate) struct Sign(AtomicBool);

// By hand: the atomics of the model have no default.
impl Default for Sign {
    fn default() -> Self {
        Self(AtomicBool::new(false))
    }
}

impl Sign {
    /// Raises the sign; work that is looked for after this call is found, or its maker sees the sign.
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes the sign down without asking.
    pub(crate) fn lower(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether the sign was up after the write before this call; takes it down, so that one maker of work wakes.
    pub(crate) fn take_after_write(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}
