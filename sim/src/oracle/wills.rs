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
    /// The same of one whose process has died: it is due this long after a start, or was before (M26).
    Interrupted { from: u64 },
    /// Published for certain.
    Must { from: u64, to: u64 },
    /// Perhaps.
    May,
    /// Never.
    MustNot,
}

/// What a CONNECT leaves to be published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftWill {
    pub(crate) msg: MsgId,
    /// So long after the connection is lost.
    pub(crate) delay_ms: u64,
    /// It is in a log with its session, which outlives the connection.
    pub(crate) is_stored: bool,
}

#[derive(Clone, Debug)]
struct Will {
    client: usize,
    left: LeftWill,
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

/// So long after the last fault every home serves and has written who was connected when the process died.
const HOMES_SERVE_MS: u64 = 5_000;

/// Wills by connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Wills {
    by_conn: BTreeMap<u32, Will>,
    /// Connections whose DISCONNECT asks for the will.
    asked: Vec<u32>,
    /// Connections that began with clean start.
    clean: Vec<(u32, usize)>,
    /// The last connection of each client.
    last: BTreeMap<usize, u32>,
}

impl Oracle {
    /// A CONNECT leaves, perhaps with a will.
    pub(crate) fn connecting(
        &mut self,
        conn: u32,
        client: usize,
        clean: bool,
        will: Option<LeftWill>,
    ) {
        self.wills.last.insert(client, conn);
        if clean {
            self.wills.clean.push((conn, client));
            // The old session may end from here on, and its will is due with it: v5 section 3.1.3.2.2.
            for old in self.wills.by_conn.values_mut() {
                if let Fate::Due { from, .. } | Fate::Interrupted { from } = &mut old.fate
                    && old.client == client
                {
                    *from = 0;
                }
            }
        }
        if let Some(left) = will {
            let will = Will {
                client,
                left,
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
            } else if will.client == client {
                will.comes_back(clean, now);
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
        let delay_ms = will.left.delay_ms;
        let from = if replaced { now } else { now + delay_ms };
        let due = Fate::Due {
            from,
            to: now + delay_ms + LATE_MS,
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
            | CloseCause::LoginTimeout
            | CloseCause::LoginWaited
            | CloseCause::TakenOver
            | CloseCause::Refused(..)
            | CloseCause::Revoked(_)
            | CloseCause::ShareRevoked
            | CloseCause::PublishRefused(_)
            | CloseCause::PublishTimeout
            | CloseCause::Stalled
            | CloseCause::Unfinished
            | CloseCause::Panicked
            | CloseCause::Administrative
            | CloseCause::ServerStops => due,
        };
    }

    /// Something of a client's session is lost: perhaps its wills, or that they are void.
    pub(crate) fn doubt_wills(&mut self, client: usize) {
        for will in self.wills.by_conn.values_mut() {
            if will.client == client {
                will.fate = Fate::May;
            }
        }
    }

    /// The process has died. Wills of sessions that a log has come once it serves again, as if their connections had been lost then; others are
    /// lost with it (M26).
    pub(super) fn interrupt_wills(&mut self, now: u64) {
        let Wills { by_conn, last, .. } = &mut self.wills;
        for (conn, will) in by_conn {
            // Another connection of the client may have come to the session, unheard, and have brought another will.
            let is_certain = will.attached && will.left.is_stored && last[&will.client] == *conn;
            will.fate = match will.fate {
                Fate::Due { from, to } if to < now => Fate::Must { from, to },
                Fate::Due { from, .. } | Fate::Interrupted { from } if is_certain => {
                    Fate::Interrupted { from }
                }
                Fate::Kept if is_certain => Fate::Interrupted {
                    from: now + will.left.delay_ms,
                },
                Fate::Kept | Fate::Due { .. } | Fate::Interrupted { .. } => Fate::May,
                fate @ (Fate::Must { .. } | Fate::May | Fate::MustNot) => fate,
            };
        }
    }

    /// A will is delivered: it must have been due.
    pub(super) fn judge_will(&self, msg: MsgId, now: u64) -> Result<(), String> {
        let mut wills = self.wills.by_conn.values();
        let Some(will) = wills.find(|will| will.left.msg == msg) else {
            return Ok(());
        };
        let early = match will.fate {
            Fate::Kept => !self.faulted,
            Fate::MustNot => true,
            Fate::Due { from, .. } | Fate::Interrupted { from } => now < from,
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

    /// Wills that were published for certain count as acknowledged messages. When they were is known where nothing has failed; else
    /// who is subscribed to the end has them.
    pub(super) fn settle_wills(&mut self, now: u64) {
        let served_at = self.healing_since.map(|at| at + HOMES_SERVE_MS);
        let (faulted, deposed) = (self.faulted, self.deposed);
        for will in self.wills.by_conn.values_mut() {
            will.fate = match will.fate {
                Fate::Due { from, to } if to < now => Fate::Must { from, to },
                Fate::Interrupted { from }
                    if served_at.is_some_and(|at| at + will.left.delay_ms < now) =>
                {
                    Fate::Must { from, to: now }
                }
                fate => fate,
            };
            let is_sure = !faulted || will.left.is_stored && !deposed;
            if let Fate::Must { from, to } = will.fate
                && is_sure
                && let Some(msg) = self.msgs.get_mut(&will.left.msg)
            {
                msg.first_sent = from;
                msg.acked = Some(if faulted { now } else { to });
            }
        }
    }
}

impl Will {
    /// Another connection of the client is attached: one that is not due yet is void, or due now with a clean start.
    fn comes_back(&mut self, clean: bool, now: u64) {
        self.fate = match self.fate {
            Fate::Due { from, to } if to <= now => Fate::Must { from, to },
            // Its home has published it before it took anybody.
            Fate::Interrupted { from } if self.left.delay_ms == 0 => Fate::Must { from, to: now },
            Fate::Due { from, .. } | Fate::Interrupted { from } if from <= now => Fate::May,
            // The old session ends here, and with it its will is due: v5 section 3.1.2.5.
            Fate::Due { .. } | Fate::Interrupted { .. } if clean => Fate::May,
            Fate::Due { .. } | Fate::Interrupted { .. } => Fate::MustNot,
            fate @ (Fate::Kept | Fate::Must { .. } | Fate::May | Fate::MustNot) => fate,
        };
    }
}
