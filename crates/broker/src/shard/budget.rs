//! The work of a turn, and what each kind of it costs.

use router::Visited;

/// What is left of a turn, in units of about 20 ns on a core of 3 GHz (measured: a delivery at QoS 0 with 64 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget(i64);

impl Budget {
    /// A turn's work: about 200 µs. At most half of it for what other shards sent.
    pub(crate) const TURN: i64 = 10_000;
    /// One delivery to a front.
    pub(crate) const DELIVERY: i64 = 1;
    /// What a delivery costs more that is one of hundreds of the same message: each receiver's memory is far away (estimated:
    /// 0.3 µs; turns of 1,900 of them took 3 to 8 ms on a busy machine, their 128 writes included).
    pub(crate) const FAR: i64 = 14;
    /// One append, one timer.
    pub(crate) const STEP: i64 = 4;
    /// One write of a socket, for a connection that is answered: the system call, which on the same machine does the receiver's part too
    /// (measured: 134 of PINGREQ with their answers took 2.0 ms). Deliveries do not pay it: one publish for many would end the batch that
    /// makes their writes few; what a turn writes is bounded by itself ([`write_touched`](super::Shard::write_touched)).
    pub(crate) const ANSWER: i64 = 400;
    /// One message of a ring or of the shard itself.
    pub(crate) const MESSAGE: i64 = 4;
    /// One read of a socket: the system call.
    pub(crate) const READ: i64 = 75;
    /// Bytes of a committed entry that cost as much as one unit (measured: about 1 ns a byte at 128 bytes a message).
    pub(crate) const ENTRY_BYTES: i64 = 20;
    /// One place of a table that an operator's question looks at (estimated: 0.3 µs for a row).
    pub(crate) const ROW: i64 = 15;
    /// One connection that ends: its front, its session, its filters in both indexes, its socket (measured: 10 in a turn took 0.7 to 1.1 ms).
    pub(crate) const CLOSE: i64 = 2_500;
    /// One accepted connection.
    pub(crate) const ACCEPT: i64 = 500;
    /// One filter of an UNSUBSCRIBE: it is looked up in its session (estimated: 0.3 µs). Where it is there, the partition says what more that costs.
    pub(crate) const NAMED: i64 = 15;
    /// One filter of a SUBSCRIBE: it is looked up in its session, written, and put into both indexes (measured: 10 to 40 µs,
    /// by how many the session has).
    pub(crate) const FILTER: i64 = 1_000;
    /// One filter that comes into L1 or goes: it is written now and once more behind the readers (measured: 1 to 2 µs).
    pub(crate) const INDEXED: i64 = 80;
    /// One question for retained messages, its answer, or a message in it: an entry is written (measured: 1 to 2 µs).
    pub(crate) const SCAN: i64 = 60;
    /// One node of an index that a match visits, far from the one before it (measured: 43 ns, 16,000 nodes a match).
    const VISIT: i64 = 2;

    /// `units` of work.
    pub(crate) const fn of(units: i64) -> Self {
        Self(units)
    }

    /// Counts work that was done.
    #[inline]
    pub(crate) const fn spend(&mut self, units: i64) {
        self.0 -= units;
    }

    /// Counts what a match took. One that was asked before takes nothing.
    #[inline]
    pub(crate) fn spend_on(&mut self, visited: Visited) {
        self.0 -= Self::VISIT * visited.0 as i64;
    }

    /// Adds units; what was overdrawn is forgiven.
    pub(crate) fn grant(&mut self, units: i64) {
        self.0 = self.0.max(0) + units;
    }

    /// Sets half of what is there aside, which is the answer: [`grant`](Self::grant) gives it back.
    pub(crate) const fn halve(&mut self) -> i64 {
        let aside = if self.0 > 0 { self.0 / 2 } else { 0 };
        self.0 -= aside;
        aside
    }

    /// Whether it is used up.
    #[inline]
    pub(crate) const fn is_spent(self) -> bool {
        self.0 <= 0
    }
}
