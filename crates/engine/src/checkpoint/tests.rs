//! What one step and one fact write (M42), and that all of it is the state at the beginning whatever comes meanwhile.

use std::collections::{BTreeMap, BTreeSet};

mod bounds;
mod lives;

use bytes::Bytes;
use courser_contract::{
    AppendKey, Class, Epoch, HomeRef, LogIndex, PartitionId, QoS, RecordView, Seq, SessionUid,
    SharedStrategy, SubscriptionOptions, Term, Tick, WallMs,
};

use courser_memory::thread_snapshot;

use super::{EntrySet, PIECE_BYTES, Restore, walk::Walk};
use crate::{
    Partition, PartitionConfig,
    entry::RetainMark,
    entry::{AttachFact, Fate, Gather, Haste, OutcomeFact, PublishFact, Rare, Target, Targets},
    group::Fact as GroupFact,
    ids::{self, Owner},
    lost::LostReference,
    record::{Address, Expiry},
};

/// Blocks of memory that a step takes and gives back at most: those of 32 items of what is gone.
const BLOCKS_MAX: u64 = 160;
/// Bytes that it takes: a new piece, and what it says.
const MADE_MAX: u64 = 128 * 1_024;

/// A partition with its log.
struct Life {
    partition: Partition,
    entries: Vec<Bytes>,
    gather: Gather,
    scratch: Vec<u8>,
    pieces: Vec<Bytes>,
    /// What it was when the checkpoint began.
    begun: Looks,
    term: u64,
    /// Entries that no start finds in the log any more.
    lost: BTreeSet<u64>,
}

/// What is there of a partition.
#[derive(Default, PartialEq, Eq)]
struct Looks {
    state: Vec<u8>,
    /// When records expire, as exactly as is known of those that are in the log only.
    expiries: BTreeMap<Address, Option<WallMs>>,
    /// What needs records of entries that the log has lost. Of those that it did not give for once the next start asks again.
    lost: Vec<LostReference>,
}

impl Looks {
    fn of(partition: &Partition, lost: &BTreeSet<u64>) -> Self {
        let records = &partition.state.records;
        let expiry = |slot| {
            let at = Expiry::of(records.expires_at(slot));
            (records.address(slot), at.moment())
        };
        let mut places = partition.lost();
        places.retain(|place| lost.contains(&place.index.0));
        Self {
            state: partition.encode_state(),
            expiries: records.iter().map(expiry).collect(),
            lost: places,
        }
    }
}

/// What is published.
#[derive(Clone, Copy, Debug)]
struct Message<'a> {
    topic: &'a str,
    payload: &'a [u8],
    expires_at: Option<WallMs>,
    is_kept: bool,
}

impl Default for Message<'_> {
    fn default() -> Self {
        Self {
            topic: "a/b",
            payload: b"payload",
            expires_at: None,
            is_kept: false,
        }
    }
}

fn config() -> PartitionConfig {
    PartitionConfig::new(PartitionId(1), Class::Durable)
}

fn session(counter: u64, place: u32) -> u64 {
    ids::stream_of(Owner::Session, counter, place)
}

fn group(counter: u64, place: u32) -> u64 {
    ids::stream_of(Owner::Group, counter, place)
}

fn home(number: u64) -> HomeRef {
    HomeRef {
        partition: PartitionId(1),
        session: SessionUid(number),
    }
}

fn attach() -> AttachFact {
    AttachFact {
        epoch: Epoch(1),
        expiry_seconds: 3_600,
        receive_maximum: 100,
        sent_limit: 0,
        will: None,
    }
}

impl Life {
    fn new() -> Self {
        Self {
            partition: Partition::new(config()),
            entries: Vec::new(),
            gather: Gather::default(),
            scratch: Vec::new(),
            pieces: Vec::new(),
            begun: Looks::default(),
            term: 1,
            lost: BTreeSet::new(),
        }
    }

    fn rare(&mut self, fact: Rare) {
        fact.write(&mut self.gather, Haste::Now, &mut self.scratch);
    }

    fn open(&mut self, number: u64) {
        self.rare(Rare::SessionOpened {
            session: SessionUid(number),
            client_id: format!("client-{}", ids::place(number)).into(),
            attach: attach(),
        });
    }

    fn subscribe(&mut self, number: u64, filter: &str, scan: u64) {
        self.rare(Rare::Subscribed {
            session: SessionUid(number),
            filter: filter.into(),
            share: None,
            options: SubscriptionOptions::default(),
            identifier: None,
            scan,
        });
    }

    fn make_group(&mut self, number: u64) {
        self.rare(Rare::GroupMade {
            group: number,
            share: "g".into(),
            filter: format!("group/{}", ids::place(number)).into(),
            strategy: SharedStrategy::default(),
        });
    }

    fn join(&mut self, group: u64, member: u64) {
        self.rare(Rare::GroupJoined {
            group,
            member: home(member),
            options: SubscriptionOptions::default(),
            identifier: None,
        });
    }

    fn of_group(&mut self, group: u64, fact: GroupFact) {
        self.rare(Rare::GroupFact { group, fact });
    }

    fn assign(&mut self, group: u64, seq: u64, member: u64) {
        let (seq, member) = (Seq(seq), home(member));
        let packet_id = Some(40_000);
        self.of_group(
            group,
            GroupFact::Assigned {
                seq,
                member,
                packet_id,
            },
        );
    }

    fn publish(&mut self, streams: &[u64], identifiers: &[u32]) {
        self.message_to(streams, identifiers, Message::default());
    }

    fn message_to(&mut self, streams: &[u64], identifiers: &[u32], message: Message<'_>) {
        let target = |&stream: &u64| Target {
            stream,
            qos: QoS::ExactlyOnce,
            retain: RetainMark::Keep,
            identifiers: (!identifiers.is_empty()).then(|| identifiers.into()),
        };
        let targets: Vec<Target> = streams.iter().map(target).collect();
        self.message(Targets::Inline(&targets), message);
    }

    fn message(&mut self, targets: Targets<'_>, message: Message<'_>) {
        let view = RecordView {
            topic: message.topic,
            properties: b"",
            payload: message.payload,
            qos: QoS::ExactlyOnce,
            retain: message.is_kept,
            expires_at: message.expires_at,
            publisher: None,
            author: None,
        };
        let key = AppendKey::Unanswered;
        PublishFact::write(&mut self.gather, &key, message.is_kept, targets, &view);
    }

    fn outcome(&mut self, stream: u64, (first, last): (u64, u64), fate: Fate) {
        let sent_limit = 0;
        let outcome = OutcomeFact {
            stream,
            first,
            last,
            fate,
            sent_limit,
        };
        outcome.write(&mut self.gather, Haste::Lazy(Tick(0)));
    }

    /// Applies what was said as an entry; returns the bytes that this made the checkpoint write.
    fn commit(&mut self) -> u64 {
        let number = self.entries.len() as u64 + 1;
        let Some(entry) = self
            .gather
            .take(WallMs(1_000 + number), Term(self.term), number)
        else {
            return 0;
        };
        let before = self.written();
        let applied = self.partition.replay_entry(LogIndex(number), &entry);
        applied.expect("an entry that was just written");
        self.entries.push(entry);
        self.written() - before
    }

    /// Bytes of the checkpoint so far.
    fn written(&self) -> u64 {
        let saving = self.partition.state.saving.as_ref();
        saving.map_or(0, |saving| saving.output.bytes)
    }

    fn begin(&mut self) {
        assert!(self.partition.begin_checkpoint());
        self.pieces.clear();
        self.begun = Looks::of(&self.partition, &self.lost);
    }

    /// One step, or some for this budget; returns its bytes.
    fn step(&mut self, budget: usize) -> u64 {
        let before = self.written();
        if let Some(piece) = self.partition.take_checkpoint_piece(budget) {
            self.pieces.push(piece.bytes);
        }
        self.written() - before
    }

    /// Items that the walk will pass over.
    fn notes(&self) -> usize {
        let saving = self.partition.state.saving.as_ref();
        saving.map_or(0, |saving| saving.apart.len())
    }

    /// Whether the checkpoint has ended; then it is the state at its beginning.
    fn has_ended(&mut self) -> bool {
        let saving = self.partition.state.saving.as_ref();
        if let Some(saving) = saving.filter(|it| it.walk == Walk::Done) {
            assert!(saving.apart.is_empty(), "no note outlives its item");
            assert!(saving.new_sets.is_empty() && saving.gone.is_empty());
            assert_eq!(saving.gone_bytes, 0, "what is gone is given back");
        }
        let Some(end) = self.partition.checkpoint_end() else {
            return false;
        };
        for leaves_cold in [false, true] {
            let (restored, wanted) = self.restore(leaves_cold);
            let mut wanted = wanted.ranges();
            match leaves_cold {
                true => assert!(
                    wanted.all(|it| end.live.contains(it.0)),
                    "the end names more"
                ),
                false => assert!(wanted.eq(end.live.ranges()), "the end names them"),
            }
            restored.check();
            assert!(
                Looks::of(&restored, &self.lost) == self.begun,
                "it is the state at its beginning"
            );
        }
        true
    }

    /// What the pieces say, and the entries that it wants of the log.
    fn restore(&self, leaves_cold: bool) -> (Partition, EntrySet) {
        let mut restore = Restore::new(config());
        if leaves_cold {
            restore.leave_cold(0);
        }
        for piece in &self.pieces {
            restore.piece(piece).expect("a piece as it was written");
        }
        let wanted = restore.wanted().expect("the units fit each other");
        for (first, last) in wanted.ranges() {
            for at in first.0..=last.0 {
                let given = match self.lost.contains(&at) {
                    true => restore.lost_entry(LogIndex(at)).map(|_| ()),
                    false => restore.live_entry(LogIndex(at), &self.entries[at as usize - 1]),
                };
                given.expect("an entry of the log");
            }
        }
        let restored = restore.finish();
        (restored.expect("all that was wanted has come"), wanted)
    }

    /// Another process begins with a checkpoint of what is there now. From some entries on that it needs the log has lost.
    fn restart(&mut self, is_lost: impl Fn(u64) -> bool) {
        self.partition.cancel_checkpoint();
        self.begin();
        let end = loop {
            self.step(PIECE_BYTES);
            if let Some(end) = self.partition.checkpoint_end() {
                break end;
            }
        };
        let needed = end.live.ranges().flat_map(|(first, last)| first.0..=last.0);
        self.lost.extend(needed.filter(|at| is_lost(*at)));
        let (restored, _) = self.restore(false);
        restored.check();
        self.partition = restored;
    }

    /// All steps that are left; returns the most bytes that one wrote. None allocates or frees much.
    fn finish(&mut self) -> u64 {
        let mut most = 0;
        while !self.has_ended() {
            let before = thread_snapshot();
            let bytes = self.step(1);
            let step = thread_snapshot().since(&before);
            let (made, freed) = (step.allocated(), step.freed());
            let blocks = made.allocations + freed.allocations;
            assert!(blocks <= BLOCKS_MAX, "{blocks} blocks in one step");
            let bytes_made = made.bytes;
            assert!(bytes_made <= MADE_MAX, "{bytes_made} bytes in one step");
            most = most.max(bytes);
        }
        most
    }
}
