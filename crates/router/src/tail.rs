//! Tails: the levels of a filter below its last branching, kept as one run of token numbers.
//!
//! Runs of one length share a vector, so that a run costs 4 bytes a level and its place is a `u32`. A tail of one level costs nothing
//! and is where its node is.

use crate::token::TokenId;

/// What a node knows of its tail: the only level, or the place of the run among the runs of its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tail(TokenId);

impl Tail {
    pub(crate) const NONE: Tail = Tail(TokenId(0));

    fn place(self) -> usize {
        self.0.0 as usize
    }
}

#[derive(Clone, Default)]
struct Runs {
    levels: Vec<TokenId>,
    free: Vec<u32>,
}

#[derive(Clone, Default)]
pub(crate) struct Tails {
    by_len: Vec<Runs>,
    /// Of all runs in use.
    levels: usize,
}

impl Tails {
    pub(crate) fn store(&mut self, run: &[TokenId]) -> Tail {
        match *run {
            [] => return Tail::NONE,
            [only] => return Tail(only),
            _ => {}
        }
        if self.by_len.len() <= run.len() {
            self.by_len.resize_with(run.len() + 1, Runs::default);
        }
        self.levels += run.len();
        let runs = &mut self.by_len[run.len()];
        if let Some(id) = runs.free.pop() {
            let from = id as usize * run.len();
            runs.levels[from..from + run.len()].copy_from_slice(run);
            return Tail(TokenId(id));
        }
        let id = runs.levels.len() / run.len();
        crate::node::reserve(&mut runs.levels, run.len());
        runs.levels.extend_from_slice(run);
        let id = u32::try_from(id).expect("fewer than 2^32 tails of one length fit in memory");
        Tail(TokenId(id))
    }

    #[inline]
    pub(crate) fn get<'a>(&'a self, tail: &'a Tail, len: usize) -> &'a [TokenId] {
        if len == 1 {
            return std::slice::from_ref(&tail.0);
        }
        let from = tail.place() * len;
        &self.by_len[len].levels[from..from + len]
    }

    pub(crate) fn free(&mut self, tail: Tail, len: usize) {
        if len > 1 {
            self.by_len[len].free.push(tail.0.0);
            self.levels -= len;
        }
    }

    /// Levels of all runs in use.
    pub(crate) fn levels(&self) -> usize {
        self.levels
    }
}
