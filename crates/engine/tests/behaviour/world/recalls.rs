//! What reads records back: from the entries that are committed, when it should.

use std::collections::{BTreeMap, VecDeque};

use courser_contract::{LogIndex, Need, PartitionId, Question, Recalled, Want};
use courser_engine::LostReference;

use super::World;

/// When records come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recalling {
    /// In the turn in which they were asked for.
    AtOnce,
    /// When the test says so.
    Held,
}

/// Streams that wait for records, as a log's reader keeps them: each in the order of the log.
#[derive(Default)]
pub(crate) struct Reader {
    streams: BTreeMap<u64, VecDeque<Want>>,
    room: i64,
    /// Entries that cannot be read.
    damaged: Vec<LogIndex>,
}

impl Reader {
    fn ask(&mut self, question: Question) {
        self.room += i64::try_from(question.room).unwrap_or(i64::MAX / 2);
        for wants in question.streams {
            assert!(
                !wants.wants.is_empty(),
                "a stream that is named wants something"
            );
            let stream = self.streams.entry(wants.stream).or_default();
            stream.extend(wants.wants);
            let wants = stream.make_contiguous();
            wants.sort_by_key(|want| (want.index, want.byte));
        }
    }

    fn is_asked(&self) -> bool {
        self.streams.values().any(|wants| !wants.is_empty())
    }

    /// The next record of the stream that comes next in turn.
    fn next(&mut self) -> Option<Want> {
        let streams = self.streams.values_mut();
        let mut waiting = streams.filter(|wants| !wants.is_empty());
        waiting.next()?.pop_front()
    }
}

impl World {
    /// Takes questions, and answers them if that is to be done at once.
    pub(super) fn recall(&mut self) {
        for id in self.ids() {
            for _ in 0..1_000 {
                let node = self.nodes.get_mut(&id).expect("a partition of the world");
                let question = node.partition.take_question(self.now);
                let asked = question.is_some();
                if let Some(question) = question {
                    self.fx.events += 1;
                    node.reader.ask(question);
                }
                let answered = self.recalling == Recalling::AtOnce && self.recall_some(id, 3);
                if !asked && !answered {
                    break;
                }
                self.pass_messages();
            }
        }
    }

    /// Whether records are asked for that could be read.
    pub(super) fn is_reading(&self) -> bool {
        let readers = self.nodes.values().map(|node| &node.reader);
        readers.into_iter().any(|it| it.room > 0 && it.is_asked())
    }

    /// Whether records are asked for and there is no room for them.
    pub(super) fn is_starved(&self) -> bool {
        let readers = self.nodes.values().map(|node| &node.reader);
        readers.into_iter().any(|it| it.room <= 0 && it.is_asked())
    }

    /// Answers for up to `count` records of a partition, if there are any.
    pub(crate) fn recall_some(&mut self, id: PartitionId, count: usize) -> bool {
        let node = self.nodes.get_mut(&id).expect("a partition of the world");
        let mut bytes = Vec::new();
        let (mut records, mut lost) = (Vec::new(), Vec::new());
        while records.len() + lost.len() < count
            && node.reader.room > 0
            && let Some(want) = node.reader.next()
        {
            let Want { index, byte, len } = want;
            if node.reader.damaged.contains(&index) {
                lost.push(Need { index, byte });
                continue;
            }
            let at = node.log.binary_search_by_key(&index, |(at, _)| *at);
            let (_, entry) = &node.log[at.expect("only what is committed is asked for")];
            let from = byte as usize;
            records.push((want, bytes.len() as u32));
            bytes.extend_from_slice(&entry[from..from + len as usize]);
            node.reader.room -= i64::from(len);
        }
        if records.is_empty() && lost.is_empty() {
            return false;
        }
        let recalled = Recalled {
            partition: id,
            bytes: bytes.into(),
            records,
            lost,
            error: None,
        };
        self.fx.events += 1;
        self.call(id, |partition, now, fx| {
            partition.handle_recalled(now, &recalled, fx)
        });
        true
    }
}

impl World {
    /// The disk loses the first entry with these bytes; says which.
    pub(crate) fn damage(&mut self, id: PartitionId, bytes: &[u8]) -> LogIndex {
        let node = self.nodes.get_mut(&id).expect("a partition of the world");
        let has = |entry: &[u8]| entry.windows(bytes.len()).any(|part| part == bytes);
        let found = node.log.iter().find(|(_, entry)| has(entry));
        let (index, _) = *found.expect("an entry has them");
        node.reader.damaged.push(index);
        index
    }

    /// The second record that each stream asks for seems shorter than it is.
    pub(crate) fn confuse_lengths(&mut self, id: PartitionId) {
        let node = self.nodes.get_mut(&id).expect("a partition of the world");
        for wants in node.reader.streams.values_mut() {
            wants.get_mut(1).expect("it asks for more").len -= 8;
        }
    }

    /// What the disk had lost can be read again.
    pub(crate) fn mend(&mut self, id: PartitionId) {
        let node = self.nodes.get_mut(&id).expect("a partition of the world");
        node.reader.damaged.clear();
    }
    /// The operator accepts the loss of all that a partition has lost, which is said.
    pub(crate) fn accept_losses(&mut self, id: PartitionId) -> Vec<LostReference> {
        self.call(id, |partition, now, fx| {
            partition.accept_loss(now, |_| true, fx)
        })
    }
}
