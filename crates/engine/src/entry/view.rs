//! What an entry says, for people who look into a log. Payloads are left out.

use std::fmt;

use bytes::Bytes;
use courser_contract::{QoS, Term, WallMs};

use super::{Entry, EntryError, Fact, Fate, Rare, TargetsAt, Trust};

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryView {
    /// The moment of the entry (M6).
    pub wall: WallMs,
    /// Term of the leader that wrote it.
    pub term: Term,
    /// Its facts, in order.
    pub facts: Vec<FactView>,
}

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FactView {
    /// A message.
    Publish {
        /// Its topic.
        topic: Box<str>,
        /// QoS of the publisher.
        qos: QoS,
        /// Bytes of its payload.
        payload_bytes: usize,
        /// Whether it is kept as the retained message of its topic.
        kept: bool,
        /// Whom it is for, in words.
        targets: String,
    },
    /// What became of messages of a stream.
    Outcome {
        /// Number of the stream.
        stream: u64,
        /// First position.
        first: u64,
        /// Last position.
        last: u64,
        /// In a word.
        what: &'static str,
    },
    /// Anything else: its name and what it says. For people: it may look otherwise in another version.
    Other(String),
}

impl EntryView {
    /// Reads the bytes of an entry.
    ///
    /// # Errors
    /// When they are none, or of a later version.
    pub fn read(bytes: &Bytes) -> Result<Self, EntryError> {
        let entry = Entry::open(bytes, Trust::Foreign)?;
        let head = entry.head();
        let mut facts = Vec::new();
        entry.for_each(|fact| facts.push(FactView::of(fact)))?;
        Ok(Self {
            wall: head.wall,
            term: head.term,
            facts,
        })
    }
}

impl FactView {
    fn of(fact: &Fact<'_>) -> Self {
        match fact {
            Fact::Publish(publish) => {
                let record = publish.record();
                let view = record.view();
                Self::Publish {
                    topic: view.topic.into(),
                    qos: view.qos,
                    payload_bytes: view.payload.len(),
                    kept: publish.keep_retained,
                    targets: match publish.targets {
                        TargetsAt::Set(set) => format!("set {set}"),
                        TargetsAt::Inline(count, _) => format!("{count} streams"),
                        TargetsAt::Same => "as before".to_owned(),
                    },
                }
            }
            Fact::Outcome(outcome) => Self::Outcome {
                stream: outcome.stream,
                first: outcome.first,
                last: outcome.last,
                what: match outcome.fate {
                    Fate::Done => "done",
                    Fate::Received => "received",
                    Fate::Rejected => "rejected",
                    Fate::Skipped => "skipped",
                    Fate::Expired => "expired",
                    Fate::Dropped => "dropped",
                },
            },
            Fact::Rare(rare) => Self::Other(format!("{:?}", without_payload(rare.clone()))),
        }
    }
}

/// A will's payload is the client's own (I14).
fn without_payload(mut rare: Rare) -> Rare {
    if let Rare::SessionOpened { attach, .. } | Rare::SessionAttached { attach, .. } = &mut rare
        && let Some(will) = &mut attach.will
    {
        will.payload = Box::default();
        will.properties = Box::default();
    }
    rare
}

impl fmt::Display for FactView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Publish {
                topic,
                qos,
                payload_bytes,
                kept,
                targets,
            } => {
                let kept = if *kept { ", kept as retained" } else { "" };
                write!(
                    f,
                    "publish to {topic:?}, QoS {}, {payload_bytes} bytes, for {targets}{kept}",
                    *qos as u8
                )
            }
            Self::Outcome {
                stream,
                first,
                last,
                what,
            } => write!(f, "{first} to {last} of stream {stream:#x} are {what}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use courser_contract::{Epoch, SessionUid, Will};

    use super::*;
    use crate::entry::AttachFact;

    #[test]
    fn i14_the_payload_of_a_will_is_not_shown() {
        let will = Will {
            topic: "gone".into(),
            properties: Box::from(&b"secret properties"[..]),
            payload: Box::from(&b"secret"[..]),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay_seconds: 0,
            expiry_seconds: None,
        };
        let rare = Rare::SessionOpened {
            session: SessionUid(5),
            client_id: "car\u{1b}".into(),
            attach: AttachFact {
                epoch: Epoch(1),
                expiry_seconds: 60,
                receive_maximum: 10,
                sent_limit: 0,
                will: Some(Box::new(will)),
            },
        };
        let FactView::Other(text) = FactView::of(&Fact::Rare(rare)) else {
            panic!("it is a rare one");
        };
        assert!(text.starts_with("SessionOpened") && text.contains("gone"));
        assert!(
            !text.contains("115, 101, 99"),
            "the bytes of the payload: {text}"
        );
        assert!(!text.contains('\u{1b}'), "names are escaped: {text}");
    }

    #[test]
    fn what_is_no_entry_is_said_to_be_none() {
        for bytes in [&b""[..], &[0; 32], &[9; 400]] {
            assert!(EntryView::read(&Bytes::copy_from_slice(bytes)).is_err());
        }
    }
}
