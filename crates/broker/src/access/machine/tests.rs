use std::sync::mpsc;

use courser_access::{Command, Limits, Refusal, Role, RoleName, Room, User, UserName};
use courser_contract::ShardId;

use super::*;

const AT: CheckpointAt = CheckpointAt {
    index: LogIndex(9),
    term: Term(2),
};

fn user(name: &str) -> UserName {
    UserName::new(name).unwrap()
}

fn put_user(name: &str) -> Command {
    Command::PutUser(user(name), User::default())
}

struct Asked(mpsc::Receiver<Result<u64, ChangeError>>);

impl Asked {
    fn answer(&self) -> Option<Result<u64, ChangeError>> {
        self.0.try_recv().ok()
    }
}

fn submit(machine: &mut Metadata, command: Command) -> (Option<Bytes>, Asked) {
    submit_at(machine, None, command)
}

fn submit_at(
    machine: &mut Metadata,
    only_at: Option<u64>,
    command: Command,
) -> (Option<Bytes>, Asked) {
    let (sender, receiver) = mpsc::channel();
    let submitted = Submitted {
        command,
        only_at,
        answer: Box::new(move |result| sender.send(result).unwrap()),
    };
    (machine.propose(submitted, WallMs(7)), Asked(receiver))
}

fn machine() -> Metadata {
    Metadata::new(Arc::new(Access::alone()))
}

/// Changes that wait, and the revisions that came of those that were settled.
struct Queue {
    machine: Metadata,
    access: Arc<Access>,
    settled: mpsc::Receiver<(usize, Result<u64, ChangeError>)>,
}

impl Queue {
    fn of(commands: impl IntoIterator<Item = Command>) -> Self {
        let dozes = [Arc::default(), Arc::default()];
        let access = Arc::new(Access::new(&dozes, Limits::default(), Room::default()));
        let mut machine = Metadata::new(Arc::clone(&access));
        machine.handle_leader();
        let (sender, settled) = mpsc::channel();
        let asked = commands.into_iter().enumerate().map(|(number, command)| {
            let sender = sender.clone();
            Submitted {
                command,
                only_at: None,
                answer: Box::new(move |result| sender.send((number, result)).unwrap()),
            }
        });
        machine.take(asked.collect());
        Self {
            machine,
            access,
            settled,
        }
    }

    /// Which are settled now, in their order.
    fn settle(&mut self) -> Vec<usize> {
        while let Some(submitted) = self.machine.take_next() {
            let entry = self.machine.propose(submitted, WallMs(7)).unwrap();
            self.machine.handle_committed(&entry).unwrap();
        }
        let settled = self.settled.try_iter();
        settled
            .map(|(number, result)| (number, result.unwrap()).0)
            .collect()
    }
}

#[test]
fn i11_a_new_user_inherits_no_session_of_one_that_is_gone() {
    let mut queue = Queue::of([
        put_user("anna"),
        Command::RemoveUser(user("anna")),
        put_user("anna"),
    ]);
    assert_eq!(queue.settle(), [0, 1], "it is gone");
    assert!(!queue.machine.has_next(), "a turn need not look");
    queue.access.note_swept(ShardId(0), 3);
    queue.access.note_swept(ShardId(1), 1);
    assert!(queue.machine.has_next());
    assert!(queue.settle().is_empty(), "one shard may have its sessions");
    assert!(!queue.machine.has_next());
    queue.access.note_swept(ShardId(1), 2);
    assert!(queue.machine.has_next());
    assert_eq!(queue.settle(), [2]);
    assert!(!queue.machine.has_next());
}

#[test]
fn only_changes_of_the_same_user_wait_behind_a_new_one() {
    let mut queue = Queue::of([
        put_user("anna"),
        Command::RemoveUser(user("anna")),
        put_user("anna"),
        Command::PutRole(RoleName::new("reader").unwrap(), Role::default()),
        put_user("ben"),
        Command::RemoveUser(user("anna")),
        put_user("anna"),
        Command::RemoveUser(user("ben")),
    ]);
    assert_eq!(queue.settle(), [0, 1, 3, 4, 7], "all but those of anna");
    let sweep = |queue: &Queue, revision| {
        for shard in [ShardId(0), ShardId(1)] {
            queue.access.note_swept(shard, revision);
        }
    };
    sweep(&queue, 2);
    assert_eq!(queue.settle(), [2, 5], "and then it is gone again");
    sweep(&queue, 6);
    assert!(queue.settle().is_empty());
    sweep(&queue, 7);
    assert_eq!(queue.settle(), [6]);
}

#[test]
fn a_change_of_everything_keeps_its_place() {
    let mut table = Table::default();
    table.apply(&put_user("anna"));
    let mut queue = Queue::of([
        put_user("anna"),
        Command::RemoveUser(user("anna")),
        Command::Replace(Box::new(table)),
        Command::PutRole(RoleName::new("reader").unwrap(), Role::default()),
        put_user("ben"),
    ]);
    assert_eq!(queue.settle(), [0, 1], "it has a user of that name");
    for shard in [ShardId(0), ShardId(1)] {
        queue.access.note_swept(shard, 2);
    }
    // Whose name it takes away is not known, so that all new users wait.
    assert_eq!(queue.settle(), [2, 3]);
    for shard in [ShardId(0), ShardId(1)] {
        queue.access.note_swept(shard, 3);
    }
    assert_eq!(queue.settle(), [4]);
}

#[test]
fn changes_that_wait_are_refused_when_another_node_leads() {
    let mut queue = Queue::of([
        put_user("anna"),
        Command::RemoveUser(user("anna")),
        put_user("anna"),
    ]);
    assert_eq!(queue.settle(), [0, 1]);
    queue.machine.handle_follower();
    let waited = queue.machine.take_next().unwrap();
    assert_eq!(queue.machine.propose(waited, WallMs(7)), None);
    let answer = queue.settled.try_recv().unwrap();
    assert_eq!(answer, (2, Err(ChangeError::Unavailable)));
}

/// The walk over sessions was under way when the process died: what it had not ended may still be there.
#[test]
fn i11_a_new_user_waits_for_the_first_walk_of_a_start() {
    let mut before = machine();
    before.handle_leader();
    let entries = [put_user("anna"), Command::RemoveUser(user("anna"))];
    let entries = entries.map(|command| submit(&mut before, command).0.unwrap());
    let access = Arc::new(Access::new(
        &[Arc::default()],
        Limits::default(),
        Room::default(),
    ));
    let mut machine = Metadata::new(Arc::clone(&access));
    for entry in entries {
        machine.handle_committed(&entry).unwrap();
    }
    machine.handle_leader();
    let submitted = Submitted {
        command: put_user("anna"),
        only_at: None,
        answer: Box::new(|_| ()),
    };
    machine.take([submitted].into());
    assert!(machine.take_next().is_none(), "its sessions may be there");
    access.note_swept(ShardId(0), 2);
    assert!(machine.has_next() && machine.take_next().is_some());
}

#[test]
fn m4_a_change_is_checked_against_all_that_was_proposed_before_it() {
    let mut machine = machine();
    let (refused, asked) = submit(&mut machine, put_user("anna"));
    assert!(refused.is_none(), "m5: it does not lead");
    assert_eq!(asked.answer(), Some(Err(ChangeError::Unavailable)));
    machine.handle_leader();
    let (first, first_asked) = submit(&mut machine, put_user("anna"));
    let (second, second_asked) = submit(&mut machine, Command::RemoveUser(user("anna")));
    let (third, third_asked) = submit(&mut machine, Command::RemoveUser(user("anna")));
    assert!(third.is_none());
    let refusal = Refusal::NoUser(user("anna"));
    assert_eq!(third_asked.answer(), Some(Err(refusal.into())));
    assert_eq!(
        machine.access.table().users().len(),
        0,
        "nothing is committed"
    );
    assert_eq!(first_asked.answer(), None);
    machine.handle_committed(&first.unwrap()).unwrap();
    assert_eq!(machine.access.table().users().len(), 1);
    assert_eq!(first_asked.answer(), Some(Ok(1)));
    machine.handle_committed(&second.unwrap()).unwrap();
    assert_eq!(second_asked.answer(), Some(Ok(2)));
    assert_eq!(
        (
            machine.access.table().users().len(),
            machine.access.revision()
        ),
        (0, 2)
    );
}

#[test]
fn i12_nobody_is_known_before_all_of_the_log_is_applied() {
    let mut first = machine();
    first.handle_leader();
    let entries: Vec<_> = ["anna", "bert"]
        .map(|name| submit(&mut first, put_user(name)).0.unwrap())
        .into();
    let mut again = machine();
    for entry in &entries {
        again.handle_committed(entry).unwrap();
        assert!(!again.access.serves());
        assert_eq!(again.access.table().users().len(), 0);
    }
    again.handle_leader();
    assert!(again.access.serves());
    assert_eq!(again.access.table().users().len(), 2);
    again.handle_follower();
    let (refused, asked) = submit(&mut again, put_user("carl"));
    assert_eq!(
        (refused, asked.answer()),
        (None, Some(Err(ChangeError::Unavailable)))
    );
}

#[test]
fn m42_a_checkpoint_and_the_entries_behind_it_make_the_same_state() {
    let mut machine = machine();
    machine.handle_leader();
    let many = (0..2_000).map(|number| put_user(&format!("user-{number}-{}", "x".repeat(30))));
    for command in many {
        let (entry, _asked) = submit(&mut machine, command);
        machine.handle_committed(&entry.unwrap()).unwrap();
    }
    machine.begin_checkpoint();
    let mut bytes = Vec::new();
    let (mut turns, mut pieces) = (0, 0);
    while !machine.end_checkpoint() {
        turns += 1;
        let Some(piece) = machine.take_checkpoint_piece(1 << 10) else {
            continue;
        };
        // What comes while it is written is not in it.
        let role = Command::PutRole(RoleName::new("r").unwrap(), Role::default());
        let (entry, _asked) = submit(&mut machine, role);
        machine.handle_committed(&entry.unwrap()).unwrap();
        bytes.extend_from_slice(&piece);
        pieces += 1;
    }
    // Counted, and made, a kilobyte in a turn.
    assert!(turns > bytes.len() >> 10, "{turns} turns");
    assert!(pieces > 1, "{pieces} pieces");
    let mut again = super::tests::machine();
    again.restore(&bytes, AT).unwrap();
    assert_eq!(again.applied, AT);
    assert_eq!(
        (again.table.users().len(), again.table.roles().len()),
        (2_000, 0)
    );
    assert_eq!(again.table.revision(), 2_000);
}

#[test]
fn i12_an_entry_of_a_newer_version_is_not_skipped() {
    let mut machine = machine();
    // Field 1, value 2.
    assert_eq!(machine.handle_committed(&[8, 2]), Err(EntryError::Newer(2)));
    assert_eq!(machine.restore(&[8, 9], AT), Err(EntryError::Newer(9)));
    assert!(machine.handle_committed(b"nonsense").is_err());
    let another_part = [8, 1, 16, 7];
    assert_eq!(machine.handle_committed(&another_part), Ok(()));
    assert_eq!(machine.table.revision(), 0);
}

#[test]
fn a_change_made_out_of_an_older_table_is_refused() {
    let mut machine = machine();
    machine.handle_leader();
    let (first, _asked) = submit_at(&mut machine, Some(0), put_user("anna"));
    assert!(first.is_some());
    let (second, asked) = submit_at(&mut machine, Some(0), put_user("ben"));
    assert!(second.is_none(), "the first one is under way");
    assert_eq!(asked.answer(), Some(Err(ChangeError::Overtaken)));
    machine.handle_committed(&first.unwrap()).unwrap();
    let (third, _asked) = submit_at(&mut machine, Some(1), put_user("ben"));
    assert!(third.is_some(), "it knows the first one");
}
