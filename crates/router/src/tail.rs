//! Tails: the levels of a filter below its last branching, kept as one run of token numbers.
//!
//! Runs of one length share a vector, so that a run costs 4 bytes a level and its place is a `u32`.

use crate::token::TokenId;

/// Place of a run among the runs of its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TailId(pub(crate) u32);

#[derive(Clone, Default)]
struct Runs {
    levels: Vec<TokenId>,
    free: Vec<u32>,
}

#[derive(Clone, Default)]
pub(crate) struct Tails {
    by_len: Vec<Runs>,
}

impl Tails {
    pub(crate) fn store(&mut self, run: &[TokenId]) -> TailId {
        if self.by_len.len() <= run.len() {
            self.by_len.resize_with(run.len() + 1, Runs::default);
        }
        let runs = &mut self.by_len[run.len()];
        if let Some(id) = runs.free.pop() {
            let from = id as usize * run.len();
            runs.levels[from..from + run.len()].copy_from_slice(run);
            return TailId(id);
        }
        let id = runs.levels.len() / run.len();
        crate::node::reserve(&mut runs.levels, run.len());
        runs.levels.extend_from_slice(run);
        TailId(u32::try_from(id).expect("fewer than 2^32 tails of one length fit in memory"))
    }

    #[inline]
    pub(crate) fn get(&self, id: TailId, len: usize) -> &[TokenId] {
        let from = id.0 as usize * len;
        &self.by_len[len].levels[from..from + len]
    }

    pub(crate) fn free(&mut self, id: TailId, len: usize) {
        self.by_len[len].free.push(id.0);
    }
}
