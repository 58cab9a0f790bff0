//! Shared subscriptions.
use courser_contract::{PartitionEffects, SessionUid};

use crate::{Partition, lead::Subscribing};

impl Partition {
    pub(crate) fn join_groups(
        &mut self,
        subscribing: &Subscribing,
        fx: &mut impl PartitionEffects,
    ) {
        let _ = (subscribing, fx);
    }
    pub(crate) fn leave_groups(&mut self, uid: SessionUid) {
        let _ = uid;
    }
    pub(crate) fn write_leave(&mut self, uid: SessionUid, share: &str, filter: &str) -> u64 {
        let _ = (uid, share, filter);
        0
    }
    pub(crate) fn begin_groups(&mut self) {}
    pub(crate) fn resend_leaves(&mut self, fx: &mut impl PartitionEffects) {
        let _ = fx;
    }
}
