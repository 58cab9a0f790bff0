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

#[test]
fn s2_a_wrong_password_of_an_imported_user_costs_as_much_as_any_other() {
    let imported = "$7$101$AAAAAAAAAAAAAAAA$\
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==";
    let imported: PasswordHash = imported.parse().expect("a hash of Mosquitto");
    assert_eq!(beside(&imported), Some(dummy_hash()));
    assert_eq!(beside(&dummy_hash()), None, "it is as dear as ours");
    assert!(!holds(&imported, b"wrong", &mut HashMemory::default()));
}
