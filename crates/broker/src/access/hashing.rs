//! Passwords are compared on threads of their own: 30 ms of a core and 19 MiB each are nothing for a shard.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use courser_access::{HashMemory, PasswordHash, UserName};
use courser_contract::FrontId;
use courser_memory::{Component, Scope};
use zeroize::Zeroizing;

use super::mailbox::Mailbox;
use super::throttle::Origin;
use crate::rings::Doze;

/// Passwords that may wait for a thread; about two seconds of work for each thread.
const WAITING_MAX: usize = 128;
/// Threads at most: memory and cores that a flood of logins can take.
const THREADS_MAX: usize = 4;

/// A password to be compared.
pub(crate) struct Job {
    pub(crate) password: Zeroizing<Vec<u8>>,
    pub(crate) hash: PasswordHash,
    pub(crate) verdict: Verdict,
    pub(crate) reply: Reply,
}

/// What came of it; `matched` is set by the thread.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) front: FrontId,
    pub(crate) origin: Origin,
    pub(crate) user: UserName,
    /// [`courser_access::User::since`] of the hash; none: there is no such user.
    pub(crate) since: Option<u64>,
    /// Under which it is remembered.
    pub(crate) key: [u8; 32],
    pub(crate) matched: bool,
}

/// Where a shard gets verdicts.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) mailbox: Arc<Mailbox<Verdict>>,
    pub(crate) doze: Arc<Doze>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    ended: bool,
}

/// The threads. They start when there is something to do.
pub(crate) struct HashPool {
    shared: Arc<(Mutex<Queue>, Condvar)>,
    threads_max: usize,
}

impl fmt::Debug for HashPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashPool({} threads at most)", self.threads_max)
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HashPool {
    /// For a machine with so many cores: half of them, four at most.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            shared: Arc::default(),
            threads_max: (cores / 2).clamp(1, THREADS_MAX),
        }
    }

    /// Hands a password over; false when too many wait, or no thread can be had.
    pub(crate) fn submit(&self, job: Job) -> bool {
        let mut queue = lock(&self.shared.0);
        if queue.jobs.len() >= WAITING_MAX || queue.ended {
            return false;
        }
        if queue.idle == 0 && queue.threads < self.threads_max {
            let shared = Arc::clone(&self.shared);
            let spawned = thread::Builder::new()
                .name("hash".to_owned())
                .spawn(move || {
                    let _scope = Scope::enter(Component::Access);
                    work(&shared);
                });
            match spawned {
                Ok(_) => queue.threads += 1,
                Err(_) if queue.threads == 0 => return false,
                Err(_) => {}
            }
        }
        queue.jobs.push_back(job);
        self.shared.1.notify_one();
        true
    }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.0);
        queue.ended = true;
        queue.jobs.clear();
        self.shared.1.notify_all();
    }
}

fn work((queue, more): &(Mutex<Queue>, Condvar)) {
    let mut memory = HashMemory::default();
    loop {
        let mut held = lock(queue);
        let job = loop {
            if held.ended {
                return;
            }
            if let Some(job) = held.jobs.pop_front() {
                break job;
            }
            held.idle += 1;
            held = more.wait(held).unwrap_or_else(PoisonError::into_inner);
            held.idle -= 1;
        };
        drop(held);
        let Job {
            password,
            hash,
            mut verdict,
            reply,
        } = job;
        verdict.matched = hash.verify(&password, &mut memory) && verdict.since.is_some();
        // The mailbox has room for all that can wait.
        let _ = reply.mailbox.put(verdict);
        reply.doze.wake();
    }
}

impl Reply {
    /// For a shard.
    pub(crate) fn new(doze: Arc<Doze>) -> Self {
        Self {
            mailbox: Arc::new(Mailbox::new(WAITING_MAX + THREADS_MAX)),
            doze,
        }
    }
}
