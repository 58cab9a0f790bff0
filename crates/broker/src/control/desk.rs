//! Where the questions for one shard lie.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use courser_contract::{FrontId, PartitionId};
use courser_engine::{LostReference, ReferenceSearch};
use courser_mqtt::front::Redirect;
use tokio::sync::oneshot::Sender;

use super::{
    AskError, ClientRow, Ended, Page, PastEvent, RetainedMessage, RetainedRow, SessionPlace,
    SessionRow, SubscriptionRow, SubscriptionStop, TracePage,
};
use crate::rings::Doze;
use crate::scrub::Missing;
use crate::sys::ShardReport;

/// Questions that may lie on one desk.
const QUESTIONS_MAX: usize = 64;

/// What a shard is asked, and where the answer goes. Nobody may wait for it any more: then it is dropped.
#[derive(Debug)]
pub(crate) enum Question {
    Report(Sender<Box<ShardReport>>),
    Clients {
        from: u32,
        answer: Sender<Page<ClientRow, u32>>,
    },
    Client {
        front: FrontId,
        answer: Sender<Option<ClientRow>>,
    },
    Holder {
        partition: PartitionId,
        client_id: Box<str>,
        answer: Sender<Option<FrontId>>,
    },
    Kick {
        front: FrontId,
        answer: Sender<bool>,
    },
    Redirect {
        front: FrontId,
        redirect: Redirect,
        answer: Sender<bool>,
    },
    History {
        client_id: Box<str>,
        answer: Sender<Vec<PastEvent>>,
    },
    Events {
        from: u64,
        answer: Sender<(Vec<PastEvent>, u64)>,
    },
    Trace {
        client_id: Box<str>,
        front: Option<FrontId>,
        from: u64,
        answer: Sender<Option<TracePage>>,
    },
    Sessions {
        partition: PartitionId,
        from: u32,
        answer: Sender<Page<SessionRow, u32>>,
    },
    Session {
        partition: PartitionId,
        client_id: Box<str>,
        answer: Sender<Option<SessionRow>>,
    },
    /// One that may be of a volatile partition, which knows no client ids.
    SessionAt {
        at: SessionPlace,
        answer: Sender<Option<SessionRow>>,
    },
    EndSession {
        partition: PartitionId,
        client_id: Box<str>,
        answer: Sender<Ended>,
    },
    Subscriptions {
        partition: PartitionId,
        from: SubscriptionStop,
        answer: Sender<Page<SubscriptionRow, SubscriptionStop>>,
    },
    Retained {
        partition: PartitionId,
        filter: Box<str>,
        after: Option<Box<str>>,
        answer: Sender<Page<RetainedRow, Box<str>>>,
    },
    RetainedMessage {
        partition: PartitionId,
        topic: Box<str>,
        answer: Sender<Option<RetainedMessage>>,
    },
    /// Which streams need records that a segment does not give any more, some at a time.
    Needs {
        partition: PartitionId,
        missing: Arc<Missing>,
        from: ReferenceSearch,
        answer: Sender<Page<LostReference, ReferenceSearch>>,
    },
    /// The checkpoint of a partition is damaged on the disk: another one is to take its place.
    Renew {
        partition: PartitionId,
        answer: Sender<()>,
    },
    /// Few enough topics for a turn.
    ClearRetained {
        partition: PartitionId,
        topics: Box<[Box<str>]>,
        answer: Sender<()>,
    },
}

#[derive(Debug, Default)]
struct Lying {
    questions: VecDeque<Question>,
    closed: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Desk {
    /// Whether something lies there: what a turn looks at instead of the lock.
    has: AtomicBool,
    lying: Mutex<Lying>,
    doze: Arc<Doze>,
}

impl Desk {
    /// An empty one of the shard that sleeps by this sign.
    pub(crate) fn new(doze: &Arc<Doze>) -> Arc<Self> {
        Arc::new(Self {
            has: AtomicBool::new(false),
            lying: Mutex::default(),
            doze: Arc::clone(doze),
        })
    }

    /// Adds a question and wakes the shard.
    ///
    /// # Errors
    /// [`AskError::Busy`] with too many, [`AskError::Stopped`] when nobody will answer any more.
    pub(crate) fn lay(&self, question: Question) -> Result<(), AskError> {
        let mut lying = self.lying.lock().unwrap_or_else(PoisonError::into_inner);
        if lying.closed {
            return Err(AskError::Stopped);
        }
        if lying.questions.len() >= QUESTIONS_MAX {
            return Err(AskError::Busy);
        }
        lying.questions.push_back(question);
        drop(lying);
        self.has.store(true, Ordering::Release);
        self.doze.wake();
        Ok(())
    }

    /// Whether something lies there. To be asked after [`Doze::lie_down`] before the shard sleeps.
    #[inline]
    pub(crate) fn has_question(&self) -> bool {
        self.has.load(Ordering::Acquire)
    }

    /// The oldest question.
    pub(crate) fn take(&self) -> Option<Question> {
        let mut lying = self.lying.lock().unwrap_or_else(PoisonError::into_inner);
        let question = lying.questions.pop_front();
        // Under the lock: a question that is laid now sets it again.
        self.has
            .store(!lying.questions.is_empty(), Ordering::Release);
        question
    }

    /// The shard ends: whoever waits hears that there is no answer.
    pub(crate) fn close(&self) {
        let mut lying = self.lying.lock().unwrap_or_else(PoisonError::into_inner);
        lying.closed = true;
        lying.questions.clear();
    }
}
