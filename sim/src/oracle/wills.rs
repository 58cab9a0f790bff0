//! Wills: exactly when due, never otherwise, at most once (M20, M25, M26).

use std::collections::BTreeMap;

use courser_contract::CloseCause;

use super::{Excuse, MsgId, Oracle};

/// A connection's last messages may wait this long for its appends, and the home's timers are that exact (M25).
pub(super) const LATE_MS: u64 = 11_000;

/// What is known of a will's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Its connection is up, or was never attached.
    Kept,
    /// It is due in this span unless the client comes back.
    Due { from: u64, to: u64 },
    /// Published for certain.
    Must { from: u64, to: u64 },
    /// Perhaps.
    May,
    /// Never.
    MustNot,
}

#[derive(Clone, Debug)]
struct Will {
    client: usize,
    msg: MsgId,
    delay_ms: u64,
    /// The CONNECT that set it asked to forget what was stored.
    attached: bool,
    /// When its client said that it is not wanted any more.
    waived: Option<u64>,
    /// That may be forgotten.
    is_good_bye_lost: bool,
    fate: Fate,
}

/// Within this the home of a session has heard of the end of a connection, and its log has it.
pub(super) const UNSETTLED_MS: u64 = 500;

/// Wills by connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Wills {
    by_conn: BTreeMap<u32, Will>,
    /// Connections whose DISCONNECT asks for the will.
    asked: Vec<u32>,
    /// Connections that began with clean start.
    clean: Vec<(u32, usize)>,
}

impl Oracle {
    /// A CONNECT leaves; with a will, that is `msg`, due so long after the connection is lost.
    pub(crate) fn connecting(
        &mut self,
        conn: u32,
        client: usize,
        clean: bool,
        will: Option<(MsgId, u64)>,
    ) {
        if clean {
            self.wills.clean.push((conn, client));
            // The old session may end from here on, and its will is due with it: v5 section 3.1.3.2.2.
            for old in self.wills.by_conn.values_mut() {
                if let Fate::Due { from, .. } = &mut old.fate
                    && old.client == client
                {
                    *from = 0;
                }
            }
        }
        if let Some((msg, delay_ms)) = will {
            let will = Will {
                client,
                msg,
                delay_ms,
                attached: false,
                waived: None,
                is_good_bye_lost: false,
                fate: Fate::Kept,
            };
            self.wills.by_conn.insert(conn, will);
        }
    }

    /// DISCONNECT with "send my will" leaves.
    pub(crate) fn asks_for_will(&mut self, conn: u32) {
        self.wills.asked.push(conn);
    }

    /// A session is attached: wills of the client that are not due yet are void, or due now with a clean start.
    pub(crate) fn attached(&mut self, conn: u32, client: usize, now: u64) {
        let clean = self.wills.clean.contains(&(conn, client));
        for (&other, will) in &mut self.wills.by_conn {
            if other == conn {
                will.attached = true;
            } else if will.client == client
                && let Fate::Due { from, to } = will.fate
            {
                will.fate = match () {
                    () if to <= now => Fate::Must { from, to },
                    () if from <= now => Fate::May,
                    // The old session ends here, and with it its will is due: v5 section 3.1.2.5.
                    () if clean => Fate::May,
                    () => Fate::MustNot,
                };
            }
        }
    }

    /// A front has closed.
    pub(crate) fn closed(&mut self, conn: u32, _client: usize, cause: CloseCause, now: u64) {
        let asked = self.wills.asked.contains(&conn);
        let Some(will) = self.wills.by_conn.get_mut(&conn) else {
            return;
        };
        let replaced = self
            .wills
            .clean
            .iter()
            .any(|&(other, whose)| other > conn && whose == will.client);
        let from = if replaced { now } else { now + will.delay_ms };
        let due = Fate::Due {
            from,
            to: now + will.delay_ms + LATE_MS,
        };
        will.fate = match cause {
            // It may have been attached behind the front's back, and let go without a word from it.
            _ if !will.attached => Fate::May,
            CloseCause::Disconnect if !asked => {
                will.waived = Some(now);
                Fate::MustNot
            }
            CloseCause::Disconnect
            | CloseCause::Lost
            | CloseCause::Fault(_)
            | CloseCause::KeepAlive
            | CloseCause::ConnectTimeout
            | CloseCause::TakenOver
            | CloseCause::Refused(_)
            | CloseCause::Administrative
            | CloseCause::ServerStops => due,
        };
    }

    /// A loss of power has taken something of a client's session: perhaps that its wills are void.
    pub(crate) fn doubt_wills(&mut self, client: usize) {
        for will in self.wills.by_conn.values_mut() {
            if will.client == client && !matches!(will.fate, Fate::Must { .. }) {
                will.fate = Fate::May;
            }
        }
    }

    /// A will is delivered: it must have been due.
    pub(super) fn judge_will(&self, msg: MsgId, now: u64) -> Result<(), String> {
        let Some(will) = self.wills.by_conn.values().find(|will| will.msg == msg) else {
            return Ok(());
        };
        let early = match will.fate {
            Fate::Kept => !self.faulted,
            Fate::MustNot => true,
            Fate::Due { from, .. } => now < from,
            Fate::Must { .. } | Fate::May => false,
        };
        if will.fate == Fate::May && will.is_good_bye_lost {
            self.uses.count(Excuse::GoodByeLost);
        }
        if early {
            return Err(format!("M20/M25: a will that is not due: {:?}", will.fate));
        }
        Ok(())
    }

    /// The node has died, or a partition has lost its leader. Nobody answers a DISCONNECT, so one that came so shortly before may be
    /// forgotten: to the log the connection was lost then.
    pub(super) fn forget_waived(
        &mut self,
        now: u64,
        shortly_ms: u64,
        is_meant: impl Fn(usize) -> bool,
    ) {
        for will in self.wills.by_conn.values_mut() {
            if is_meant(will.client) && will.waived.is_some_and(|at| now - at <= shortly_ms) {
                will.fate = Fate::May;
                will.is_good_bye_lost = true;
            }
        }
    }

    /// Wills that were published for certain count as acknowledged messages.
    pub(super) fn settle_wills(&mut self, now: u64) {
        let faulted = self.faulted;
        for will in self.wills.by_conn.values_mut() {
            if let Fate::Due { from, to } = will.fate
                && to < now
            {
                will.fate = Fate::Must { from, to };
            }
            if let Fate::Must { from, to } = will.fate
                && !faulted
                && let Some(msg) = self.msgs.get_mut(&will.msg)
            {
                msg.first_sent = from;
                msg.acked = Some(to);
            }
        }
    }
}
