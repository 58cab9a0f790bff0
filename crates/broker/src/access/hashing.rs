//! Passwords are compared and tokens verified on threads of their own: 30 ms of a core and 19 MiB for a password, 30 to 150 µs for each
//! key that a token is held against, eight at most, are nothing for a shard. How many are handed over at once is up to the
//! [throttle](super::throttle).
//!
//! A password that an operator sets is hashed here too, in the same order and out of the same memory: there is one at a time ([`Operators`](super::Operators)).
//!
//! An imported hash may take more memory than ours. What all that are looked at at once take, and what is kept for the next ones, is counted, and never
//! more than [`hashing_share`]: the next one waits until it fits.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use courser_access::scram::ScramKeys;
use courser_access::{HashError, HashMemory, PasswordHash, SALT_BYTES, UserName, dummy_hash};
use courser_contract::FrontId;
use courser_memory::{Component, Scope};
use courser_token::{Grant, TokenError, Verifier};
use zeroize::Zeroizing;

use super::mailbox::Mailbox;
use super::throttle::{Kind, Origin, Why};
use super::wanted::Wanted;
use crate::clock::unix_seconds;
use crate::memory::hashing_share;
use crate::rings::Doze;

/// Threads at most: memory and cores that a flood of logins can take.
const THREADS_MAX: usize = 4;
/// A thread for which nothing has waited for so long gives its memory back. Logins that follow on one another find it there.
const IDLE: Duration = Duration::from_millis(500);

/// A proof to be looked at.
pub(crate) struct Job {
    pub(crate) asker: Asker,
    pub(crate) origin: Origin,
    pub(crate) proof: Proof,
}

/// Who hears what came of it.
pub(crate) enum Asker {
    /// A connection of a shard, and for how long it waits: what nobody waits for is not looked at.
    Front(FrontId, Reply, Wanted),
    /// An operator: this is called on the thread that has looked, whether or not somebody still waits, and must return at once.
    Operator(Box<dyn FnOnce(Found) + Send>),
}

/// What a client came with.
pub(crate) enum Proof {
    Password {
        password: Zeroizing<Vec<u8>>,
        hash: PasswordHash,
        claim: PasswordClaim,
    },
    Token {
        token: Zeroizing<Vec<u8>>,
        verifier: Arc<Verifier>,
        /// The name that came with it, if one did.
        name: Option<UserName>,
    },
    /// No proof yet: what somebody is to prove itself with from now on.
    New(NewPassword),
}

/// A password that is to be kept.
pub(crate) struct NewPassword {
    pub(crate) password: Zeroizing<Vec<u8>>,
    pub(crate) salt: [u8; SALT_BYTES],
    /// Where SCRAM keys are wanted, too.
    pub(crate) scram_salt: Option<[u8; SALT_BYTES]>,
}

/// What is kept of a password: its hash, and SCRAM keys where they are wanted.
pub type Credentials = (PasswordHash, Option<ScramKeys>);

impl NewPassword {
    fn make(&self, memory: &mut HashMemory) -> Result<Credentials, HashError> {
        let hash = PasswordHash::new(&self.password, self.salt, memory)?;
        let keys = self
            .scram_salt
            .map(|salt| ScramKeys::new(&self.password, salt));
        Ok((hash, keys))
    }
}

/// Whose password it is said to be.
#[derive(Debug)]
pub(crate) struct PasswordClaim {
    pub(crate) user: UserName,
    /// [`courser_access::User::since`] of the hash; none: there is no such user.
    pub(crate) since: Option<u64>,
    /// Whether its hash takes more memory than one login may, and was not looked at: as if there were no such user.
    pub(crate) is_dear: bool,
    /// Under which it is remembered.
    pub(crate) key: [u8; 32],
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) front: FrontId,
    pub(crate) origin: Origin,
    pub(crate) found: Found,
}

/// Whether the proof holds.
#[derive(Debug)]
pub(crate) enum Found {
    Password {
        claim: PasswordClaim,
        matched: bool,
    },
    Token {
        grant: Result<Grant, TokenError>,
        name: Option<UserName>,
    },
    New(Result<Credentials, HashError>),
}

/// What a connection that waited for its turn is told.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) front: FrontId,
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
    /// Whether it has its turn, or why not.
    pub(crate) may: Result<(), Why>,
}

/// What was not looked at, because nobody waits for it any more, or not for long enough.
#[derive(Debug)]
pub(crate) struct Skipped {
    pub(crate) front: FrontId,
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
}

/// What a shard hears of its logins.
#[derive(Debug)]
pub(crate) enum News {
    Found(Verdict),
    Skipped(Skipped),
    Called(Called),
}

/// Where a shard gets it.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) mailbox: Arc<Mailbox<News>>,
    pub(crate) doze: Arc<Doze>,
}

#[derive(Default)]
struct Queue {
    passwords: VecDeque<Job>,
    tokens: VecDeque<Job>,
    /// Whether the last one taken was a token, so that neither kind waits for all of the other.
    took_token: bool,
    threads: usize,
    idle: usize,
    ended: bool,
    /// KiB that what is looked at may take.
    under_way_kib: usize,
    /// Memory for the next ones, of which each has room for one of our own hashes.
    spare: Vec<HashMemory>,
}

/// What a thread is to look at.
struct Taken {
    job: Box<Job>,
    memory: HashMemory,
    /// What it may take.
    kib: usize,
    /// What others would have used, which goes first.
    in_the_way: Vec<HashMemory>,
}

/// How long passwords take of late, in microseconds of time, not of CPU: what counts is when somebody hears of it. 0: none was compared yet.
#[derive(Debug, Default)]
struct Pace(AtomicU64);

/// What the threads share.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
    pace: Pace,
    /// KiB that all hashes that are compared at once may take.
    kib_max: usize,
}

/// The threads. They start when there is something to do.
pub(crate) struct HashPool {
    shared: Arc<Shared>,
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

impl Pace {
    /// The part of the new in what is known, one divided by this.
    const NEW: u64 = 8;

    /// What the next one of a kind is likely to take. A token takes next to nothing.
    fn expected(&self, kind: Kind) -> Duration {
        match kind {
            Kind::Password => Duration::from_micros(self.0.load(Ordering::Relaxed)),
            Kind::Token => Duration::ZERO,
        }
    }

    fn note(&self, kind: Kind, took: Duration) {
        if kind == Kind::Token {
            return;
        }
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX / Self::NEW);
        let known = self.0.load(Ordering::Relaxed);
        let mixed = known - known / Self::NEW + took / Self::NEW;
        // Whose figure of two threads is lost does not matter.
        self.0
            .store(if known == 0 { took } else { mixed }, Ordering::Relaxed);
    }
}

impl Proof {
    const fn kind(&self) -> Kind {
        match self {
            Self::Password { .. } | Self::New(_) => Kind::Password,
            Self::Token { .. } => Kind::Token,
        }
    }

    /// KiB that looking at it may take. A wrong password is held against one of our own hashes besides.
    fn kib(&self) -> usize {
        match self {
            Self::Password { hash, .. } => hash.cost().memory_kib.max(HashMemory::OWN_KIB) as usize,
            Self::New(_) => HashMemory::OWN_KIB as usize,
            Self::Token { .. } => 0,
        }
    }
}

impl Queue {
    fn push(&mut self, job: Job) {
        match job.proof {
            Proof::Password { .. } | Proof::New(_) => self.passwords.push_back(job),
            Proof::Token { .. } => self.tokens.push_back(job),
        }
    }

    /// The next one for which there is room, of both kinds in turn. One always fits where nothing is under way.
    fn pop(&mut self, kib_max: usize) -> Option<Taken> {
        let kib = self.passwords.front().map(|job| job.proof.kib());
        let fits = |kib: &usize| self.under_way_kib == 0 || self.under_way_kib + kib <= kib_max;
        let kib = kib.filter(fits);
        let token = !self.tokens.is_empty() && (!self.took_token || kib.is_none());
        self.took_token = token;
        if token {
            let job = Box::new(self.tokens.pop_front()?);
            let (memory, in_the_way) = (HashMemory::default(), Vec::new());
            return Some(Taken {
                job,
                memory,
                kib: 0,
                in_the_way,
            });
        }
        let kib = kib?;
        let memory = match kib <= HashMemory::OWN_KIB as usize {
            true => self.spare.pop().unwrap_or_default(),
            false => HashMemory::default(),
        };
        self.under_way_kib += kib;
        let kept: usize = self.spare.iter().map(HashMemory::kib).sum();
        let in_the_way = match self.under_way_kib + kept > kib_max {
            true => std::mem::take(&mut self.spare),
            false => Vec::new(),
        };
        let job = Box::new(self.passwords.pop_front()?);
        Some(Taken {
            job,
            memory,
            kib,
            in_the_way,
        })
    }

    /// One was looked at.
    fn give_back(&mut self, memory: HashMemory, kib: usize) {
        self.under_way_kib -= kib;
        if memory.kib() > 0 {
            self.spare.push(memory);
        }
    }

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.passwords.is_empty() && self.tokens.is_empty()
    }
}

impl HashPool {
    /// For a machine with so many cores, half of which it may take, and a process that may have so many bytes.
    pub(crate) fn new(cores: usize, memory_max: u64) -> Self {
        let kib_max = usize::try_from(hashing_share(memory_max) >> 10).unwrap_or(usize::MAX);
        let shared = Shared {
            kib_max,
            ..Shared::default()
        };
        Self {
            shared: Arc::new(shared),
            threads_max: threads_max(cores, memory_max),
        }
    }

    /// Hands a proof over; false when no thread can be had.
    pub(crate) fn submit(&self, job: Job) -> bool {
        let mut queue = lock(&self.shared.queue);
        if queue.ended {
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
        queue.push(job);
        self.shared.more.notify_one();
        true
    }
}

#[cfg(test)]
impl HashPool {
    /// Without threads: what waits is looked at by [`HashPool::look_at_next`] alone, so that a test sees each call of the hasher.
    pub(crate) fn without_threads() -> Self {
        Self {
            shared: Arc::default(),
            threads_max: 0,
        }
    }

    /// Looks at the next proof as a thread does; the hash that a password was held against. None: nothing waits for which somebody does.
    pub(crate) fn look_at_next(&self) -> Option<PasswordHash> {
        loop {
            let Taken { job, kib, .. } = lock(&self.shared.queue).pop(usize::MAX)?;
            lock(&self.shared.queue).give_back(HashMemory::default(), kib);
            let hash = match &job.proof {
                Proof::Password { hash, .. } => hash.clone(),
                Proof::Token { .. } | Proof::New(_) => {
                    panic!("these tests have passwords only")
                }
            };
            if finish(*job, &mut HashMemory::default(), &self.shared.pace) {
                return Some(hash);
            }
        }
    }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.ended = true;
        queue.passwords.clear();
        queue.tokens.clear();
        self.shared.more.notify_all();
    }
}

fn threads_max(cores: usize, memory_max: u64) -> usize {
    let each = u64::from(HashMemory::OWN_KIB) << 10;
    let fit = hashing_share(memory_max) / each;
    let fit = usize::try_from(fit).unwrap_or(usize::MAX);
    (cores / 2).min(fit).clamp(1, THREADS_MAX)
}

fn work(shared: &Shared) {
    while let Some(taken) = wait(shared) {
        let Taken {
            job,
            mut memory,
            kib,
            in_the_way,
        } = taken;
        drop(in_the_way);
        finish(*job, &mut memory, &shared.pace);
        let mut queue = lock(&shared.queue);
        queue.give_back(memory, kib);
        // What did not fit may now, beside what this thread takes next.
        if !queue.is_empty() {
            shared.more.notify_one();
        }
    }
}

/// What a thread has waited for.
enum Waited {
    Job(Taken),
    /// Nothing has come for as long as it was to wait: what was kept for it.
    InVain(Vec<HashMemory>),
    /// There will be no more.
    Ended,
}

/// The next job; none: there will be no more. Memory is given back while there is none.
fn wait(shared: &Shared) -> Option<Taken> {
    loop {
        match next(shared) {
            Waited::Job(taken) => return Some(taken),
            // Not under the lock, which shards take: these are megabytes.
            Waited::InVain(spare) => drop(spare),
            Waited::Ended => return None,
        }
    }
}

fn next(shared: &Shared) -> Waited {
    let Shared { queue, more, .. } = shared;
    let mut held = lock(queue);
    let mut is_over = false;
    loop {
        if held.ended {
            return Waited::Ended;
        }
        if let Some(taken) = held.pop(shared.kib_max) {
            return Waited::Job(taken);
        }
        if is_over {
            return Waited::InVain(std::mem::take(&mut held.spare));
        }
        let patience = (!held.spare.is_empty()).then_some(IDLE);
        held.idle += 1;
        held = match patience {
            None => more.wait(held).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = more.wait_timeout(held, patience);
                let (again, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                is_over = waited.timed_out();
                again
            }
        };
        held.idle -= 1;
    }
}

/// Looks at a proof and tells whoever asked what came of it. Where nobody waits for as long as it is likely to take, it tells that instead: it would
/// keep those from their turn who do wait. Whether it was looked at.
fn finish(job: Job, memory: &mut HashMemory, pace: &Pace) -> bool {
    let Job {
        asker,
        origin,
        proof,
    } = job;
    let (kind, began) = (proof.kind(), Instant::now());
    match &asker {
        Asker::Front(front, reply, wanted) if !wanted.in_time(began, pace.expected(kind)) => {
            let front = *front;
            reply.tell(News::Skipped(Skipped {
                front,
                origin,
                kind,
            }));
            return false;
        }
        Asker::Front(..) | Asker::Operator(_) => {}
    }
    let found = look(proof, memory);
    pace.note(kind, began.elapsed());
    memory.trim();
    tell(asker, origin, found);
    true
}

fn tell(asker: Asker, origin: Origin, found: Found) {
    match asker {
        Asker::Front(front, reply, _) => {
            let verdict = Verdict {
                front,
                origin,
                found,
            };
            reply.tell(News::Found(verdict));
        }
        Asker::Operator(tell) => tell(found),
    }
}

/// Whether it is this password. A wrong one costs what it does for users that do not exist, whatever the hash: an imported one may be far
/// cheaper than ours, and would tell who is there.
fn holds(hash: &PasswordHash, password: &[u8], memory: &mut HashMemory) -> bool {
    let matched = hash.verify(password, memory);
    if !matched && let Some(more) = beside(hash) {
        let _ = more.verify(password, memory);
    }
    matched
}

/// What a wrong password is held against besides.
fn beside(hash: &PasswordHash) -> Option<PasswordHash> {
    let dummy = dummy_hash();
    (hash.cost().memory_kib < dummy.cost().memory_kib).then_some(dummy)
}

fn look(proof: Proof, memory: &mut HashMemory) -> Found {
    match proof {
        Proof::Password {
            password,
            hash,
            claim,
        } => Found::Password {
            matched: holds(&hash, &password, memory) && claim.since.is_some(),
            claim,
        },
        Proof::Token {
            token,
            verifier,
            name,
        } => Found::Token {
            grant: verifier.verify(&token, unix_seconds()),
            name,
        },
        Proof::New(new) => Found::New(new.make(memory)),
    }
}

impl Reply {
    /// For a shard. How much waits for it is bounded by the throttle, for each of it holds a part of its address's share: what
    /// was dropped would hold it for ever.
    pub(crate) fn new(doze: Arc<Doze>) -> Self {
        Self {
            mailbox: Arc::new(Mailbox::unbounded()),
            doze,
        }
    }

    pub(super) fn tell(&self, news: News) {
        // It takes all.
        let _ = self.mailbox.put(news);
        self.doze.wake();
    }
}

#[cfg(test)]
mod tests;
