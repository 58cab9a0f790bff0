//! What is left of an entry that an operator has skipped (M50).

use bytes::{Bytes, BytesMut};

use super::{Entry, FACT_BYTES, HEADER_BYTES, Rare, gather::write_head};

/// What is left of an entry that is not applied because the program panics at it: the facts that say nothing of messages, sessions and
/// groups, and on which entries behind it count. These are the numbers of target sets (M8), and that a term began, behind which an outbox never
/// uses a position again (M19). To be applied in its place, by everybody who applies the entries of this partition.
///
/// None: the bytes say nothing that can be read. Facts that cannot be read end it; publishes are not looked into.
#[must_use]
pub fn left_of_skipped(entry: &Bytes) -> Option<Bytes> {
    let opened = Entry::open(entry, super::Trust::Foreign).ok()?;
    let mut left = BytesMut::zeroed(HEADER_BYTES);
    let mut head = opened.head();
    head.facts = 0;
    for fact in opened.rare_facts() {
        let counted_on = Rare::read_framed(&fact[FACT_BYTES..]).is_ok_and(|it| it.is_counted_on());
        if counted_on {
            left.extend_from_slice(fact);
            head.facts += 1;
        }
    }
    write_head(&mut left[..HEADER_BYTES], head);
    Some(left.freeze())
}

impl Rare {
    /// Whether entries behind it cannot be applied rightly without it.
    const fn is_counted_on(&self) -> bool {
        match self {
            Self::TermBegun {}
            | Self::SetDefined { .. }
            | Self::SetPacked { .. }
            | Self::SetDropped { .. } => true,
            Self::Taken { .. }
            | Self::SessionOpened { .. }
            | Self::SessionAttached { .. }
            | Self::SessionDetached { .. }
            | Self::SessionOwned { .. }
            | Self::SessionEnded { .. }
            | Self::WillTaken { .. }
            | Self::Subscribed { .. }
            | Self::Unsubscribed { .. }
            | Self::ScanMoved { .. }
            | Self::ScanEnded { .. }
            | Self::Held { .. }
            | Self::Released { .. }
            | Self::RetainedExpired { .. }
            | Self::Forward { .. }
            | Self::ForwardDone { .. }
            | Self::GroupMade { .. }
            | Self::GroupJoined { .. }
            | Self::GroupLeft { .. }
            | Self::GroupEnded { .. }
            | Self::GroupInherits { .. }
            | Self::GroupTook { .. }
            | Self::GroupClosed { .. }
            | Self::GroupFact { .. }
            | Self::LeaveBegun { .. }
            | Self::LeaveDone { .. } => false,
        }
    }
}
