use courser_contract::ShardId;

use super::super::wanted::Waits;
use super::*;

#[test]
fn i9_no_verdict_is_lost_however_late_its_shard_takes_it() {
    // More than are ever under way.
    const VERDICTS: u32 = 5_000;
    let reply = Reply::new(Arc::new(Doze::default()));
    for slot in 0..VERDICTS {
        let front = FrontId {
            shard: ShardId(0),
            slot,
            generation: 0,
        };
        tell(
            Asker::Front(front, reply.clone(), Waits::begin(None).1),
            Origin::Local,
            Found::Token {
                grant: Err(TokenError::Malformed),
                name: None,
            },
        );
    }
    let taken = reply.mailbox.take();
    let slots = taken.iter().map(|news| match news {
        News::Found(verdict) => verdict.front.slot,
        other => panic!("{other:?}"),
    });
    assert!(slots.eq(0..VERDICTS));
}

#[test]
fn i9_what_a_dear_hash_took_is_given_back_and_a_small_process_has_one_thread() {
    let dear = "$argon2id$v=19$m=20480,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let dear: PasswordHash = dear.parse().expect("a hash that is dearer than ours");
    let mut memory = HashMemory::default();
    let mut compare = |hash: PasswordHash| {
        let proof = Proof::Password {
            password: Zeroizing::new(b"wrong".to_vec()),
            hash,
            claim: PasswordClaim {
                user: UserName::new("anna").expect("a name"),
                since: None,
                is_dear: false,
                key: [0; 32],
            },
        };
        let job = Job {
            asker: Asker::Operator(Box::new(|_| {})),
            origin: Origin::Local,
            proof,
        };
        finish(job, &mut memory, &Pace::default());
        memory.kib()
    };
    assert_eq!(compare(dummy_hash()), HashMemory::OWN_KIB as usize);
    assert_eq!(compare(dear), 0);
    for (cores, mib, threads) in [
        (16, 4_096, 4),
        (4, 4_096, 2),
        (16, 256, 3),
        (16, 64, 1),
        (1, 1, 1),
    ] {
        assert_eq!(
            threads_max(cores, mib << 20),
            threads,
            "{cores} cores, {mib} MiB"
        );
    }
}

fn new_password() -> Job {
    job_of(Proof::New(NewPassword {
        password: Zeroizing::new(b"secret".to_vec()),
        salt: [7; SALT_BYTES],
        scram_salt: None,
    }))
}

fn job_of(proof: Proof) -> Job {
    Job {
        asker: Asker::Operator(Box::new(|_| {})),
        origin: Origin::Local,
        proof,
    }
}

#[test]
fn i9_a_new_password_waits_for_memory_as_a_login_does() {
    let own = HashMemory::OWN_KIB as usize;
    for first in [job(19), new_password()] {
        let mut queue = Queue::default();
        queue.push(first);
        queue.push(new_password());
        let taken = queue.pop(2 * own - 1).expect("one fits in any case");
        assert_eq!((taken.kib, queue.under_way_kib), (own, own));
        assert!(queue.pop(2 * own - 1).is_none(), "both would be too much");
        queue.give_back(taken.memory, taken.kib);
        let second = queue.pop(2 * own - 1).expect("now it fits");
        assert!(matches!(second.job.proof, Proof::New(_)), "in their order");
    }
}

#[test]
fn a_new_password_is_made_by_the_threads_that_compare() {
    let pool = HashPool::new(2, 1 << 30);
    let (sender, receiver) = std::sync::mpsc::channel();
    let tell = move |found| {
        let Found::New(made) = found else {
            panic!("it was to be made");
        };
        sender
            .send((made, thread::current().name().map(str::to_owned)))
            .unwrap();
    };
    let submitted = pool.submit(Job {
        asker: Asker::Operator(Box::new(tell)),
        ..new_password()
    });
    assert!(submitted);
    let (made, thread) = receiver.recv().unwrap();
    let (hash, keys) = made.expect("it is short enough");
    assert!(hash.verify(b"secret", &mut HashMemory::default()) && keys.is_none());
    assert_eq!(thread.as_deref(), Some("hash"));
}

#[test]
fn s2_a_wrong_password_of_an_imported_user_costs_as_much_as_any_other() {
    let imported = "$7$101$AAAAAAAAAAAAAAAA$\
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==";
    let imported: PasswordHash = imported.parse().expect("a hash of Mosquitto");
    assert_eq!(beside(&imported), Some(dummy_hash()));
    assert_eq!(beside(&dummy_hash()), None, "it is as dear as ours");
    assert!(!holds(&imported, b"wrong", &mut HashMemory::default()));
}

fn job(mib: u32) -> Job {
    let kib = mib << 10;
    let hash =
        format!("$argon2id$v=19$m={kib},t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA");
    job_of(Proof::Password {
        password: Zeroizing::new(b"wrong".to_vec()),
        hash: hash.parse().expect("a hash"),
        claim: PasswordClaim {
            user: UserName::new("anna").expect("a name"),
            since: None,
            is_dear: false,
            key: [0; 32],
        },
    })
}

const KIB_MAX: usize = 64 << 10;

#[test]
fn hashes_that_do_not_fit_together_wait_for_one_another() {
    let mut queue = Queue::default();
    for mib in [40, 30, 19] {
        queue.push(job(mib));
    }
    let first = queue.pop(KIB_MAX).expect("there is room");
    assert_eq!(first.kib, 40 << 10);
    assert!(queue.pop(KIB_MAX).is_none(), "70 MiB are too much");
    queue.give_back(first.memory, first.kib);
    let second = queue.pop(KIB_MAX).expect("there is room again");
    let third = queue.pop(KIB_MAX).expect("and for one of ours");
    assert_eq!((second.kib, third.kib), (30 << 10, 19 << 10));
    queue.give_back(second.memory, second.kib);
    queue.give_back(third.memory, third.kib);
    // What a process with more memory took is compared alone.
    queue.push(job(200));
    assert!(queue.pop(KIB_MAX).is_some());
}

#[test]
fn memory_that_is_kept_for_our_hashes_goes_before_a_dear_one_and_serves_the_next_of_ours() {
    let mut queue = Queue::default();
    let own = HashMemory::OWN_KIB as usize;
    let keep = |queue: &mut Queue, taken: Taken| {
        let Taken {
            job,
            mut memory,
            kib,
            ..
        } = taken;
        finish(*job, &mut memory, &Pace::default());
        queue.give_back(memory, kib);
    };
    queue.push(job(19));
    queue.push(job(1));
    let both = [queue.pop(KIB_MAX), queue.pop(KIB_MAX)];
    for taken in both.into_iter().flatten() {
        assert_eq!(taken.kib, own, "a wrong one is held against ours too");
        keep(&mut queue, taken);
    }
    assert_eq!(queue.spare.len(), 2);
    queue.push(job(19));
    let again = queue.pop(KIB_MAX).expect("there is room");
    assert_eq!(again.memory.kib(), own, "it is there already");
    keep(&mut queue, again);
    queue.push(job(40));
    let dear = queue.pop(KIB_MAX).expect("there is room");
    assert_eq!((dear.in_the_way.len(), queue.spare.len()), (2, 0));
    queue.give_back(dear.memory, dear.kib);
    assert_eq!(queue.under_way_kib, 0);
}
