//! Shared groups as the log keeps them (M35).

use courser_contract::SessionUid;

use super::{Sink, State};
use crate::{
    canonical::{Canonical, write_count},
    entry::Rare,
    group::Group,
    stream::Stream,
};

/// A shared group with its stream.
#[derive(Debug)]
pub(crate) struct SharedGroup {
    pub(crate) group: Group,
    pub(crate) stream: Stream,
}

/// A session that left a group which has not confirmed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) share: Box<str>,
    pub(crate) filter: Box<str>,
    pub(crate) member: SessionUid,
}

impl State {
    pub(super) fn apply_group(&mut self, fact: &Rare, sink: &mut impl Sink) {
        let _ = (fact, sink);
    }

    pub(super) fn group_streams(&self) -> impl Iterator<Item = &Stream> {
        self.groups.iter().map(|(_, group)| &group.stream)
    }

    pub(super) fn encode_groups(&self, out: &mut Vec<u8>) {
        write_count(self.leaves.len(), out);
        for (request, leaving) in &self.leaves {
            request.write(out);
            leaving.share.write(out);
            leaving.filter.write(out);
            leaving.member.write(out);
        }
    }

    pub(super) fn check_groups(&self) {}
}
