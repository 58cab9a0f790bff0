use std::sync::mpsc;

use courser_access::{Command, Limits, Refusal, Role, RoleName, Room, User, UserName};
use courser_contract::ShardId;
use courser_memory::thread_snapshot;

use super::super::import::Import;
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
        change: Change::One(command),
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
    sender: mpsc::Sender<(usize, Result<u64, ChangeError>)>,
    settled: mpsc::Receiver<(usize, Result<u64, ChangeError>)>,
    asked: usize,
}

impl Queue {
    fn of(commands: impl IntoIterator<Item = Command>) -> Self {
        let dozes = [Arc::default(), Arc::default()];
        let access = Arc::new(Access::new(&dozes, Limits::default(), Room::default()));
        let mut machine = Metadata::new(Arc::clone(&access));
        machine.handle_leader();
        let (sender, settled) = mpsc::channel();
        let mut queue = Self {
            machine,
            access,
            sender,
            settled,
            asked: 0,
        };
        for command in commands {
            queue.ask(Change::One(command));
        }
        queue
    }

    fn ask(&mut self, change: Change) {
        let (sender, number) = (self.sender.clone(), self.asked);
        let submitted = Submitted {
            change,
            only_at: None,
            answer: Box::new(move |result| sender.send((number, result)).unwrap()),
        };
        self.asked += 1;
        self.machine.take([submitted].into());
    }

    /// An import for the table that is committed.
    fn import(&mut self, table: Table) {
        let import = Import::new(&self.access.table(), table).unwrap();
        self.ask(Change::All(Box::new(import)));
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
    let mut queue = Queue::of([put_user("anna"), Command::RemoveUser(user("anna"))]);
    assert_eq!(queue.settle(), [0, 1]);
    queue.import(table);
    let role = Command::PutRole(RoleName::new("reader").unwrap(), Role::default());
    queue.ask(Change::One(role));
    queue.ask(Change::One(put_user("ben")));
    assert!(queue.settle().is_empty(), "it has a user of that name");
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
        change: Change::One(put_user("anna")),
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

fn table_of(users: u32) -> Table {
    let role = RoleName::new("device").unwrap();
    let mut table = Table::default();
    table.apply(&Command::PutRole(role.clone(), Role::default()));
    for number in 0..users {
        let of_device = User {
            roles: [role.clone()].into(),
            ..User::default()
        };
        let name = user(&format!("device-{number}"));
        table.apply(&Command::PutUser(name, of_device));
    }
    table
}

/// Blocks of memory that this thread has taken and given back.
fn blocks() -> u64 {
    let counted = thread_snapshot();
    counted.allocated().allocations + counted.freed().allocations
}

/// What a shard does for an import in all its turns: blocks taken and given back until it is committed, the copies of the shards are gone, and a checkpoint
/// that was under way is given up.
fn blocks_of_import(users: u32) -> u64 {
    let mut queue = Queue::of([]);
    // What is replaced is as large, and is there twice: proposed and committed.
    for command in [put_user("gone"), Command::RemoveUser(user("gone"))] {
        queue.ask(Change::One(command));
    }
    assert_eq!(queue.settle(), [0, 1]);
    queue.access.note_swept(ShardId(0), 2);
    queue.access.note_swept(ShardId(1), 2);
    for (number, users) in [(2, users), (3, users / 2)] {
        let (had, before) = (queue.access.table(), blocks());
        let mut table = table_of(users);
        table.apply(&put_user("more"));
        queue.machine.begin_checkpoint();
        queue.import(table);
        let began = blocks();
        assert!(began - before > u64::from(users), "it was made ready here");
        assert_eq!(queue.settle(), [number]);
        queue.machine.cancel_checkpoint();
        assert!(!queue.access.table().shares_memory_with(&had));
        let_go(had);
        if number == 3 {
            return blocks() - began;
        }
        for shard in [ShardId(0), ShardId(1)] {
            queue.access.note_swept(shard, 3);
        }
    }
    unreachable!("there are two imports")
}

#[test]
fn what_a_shard_does_for_an_import_does_not_grow_with_it() {
    let few = blocks_of_import(10);
    let many = blocks_of_import(5_000);
    assert!(
        many <= few + 16,
        "{few} blocks for 10 users, {many} for 5,000"
    );
    assert!(many < 200, "{many} blocks");
}

#[test]
fn m4_an_import_is_the_same_for_those_who_read_its_entry() {
    let mut leads = machine();
    leads.handle_leader();
    let (first, _asked) = submit(&mut leads, put_user("anna"));
    leads.handle_committed(first.as_ref().unwrap()).unwrap();
    let import = Import::new(&leads.access.table(), table_of(20)).unwrap();
    let (sender, receiver) = mpsc::channel();
    let submitted = Submitted {
        change: Change::All(Box::new(import)),
        only_at: Some(1),
        answer: Box::new(move |result| sender.send(result).unwrap()),
    };
    let entry = leads.propose(submitted, WallMs(1 << 40)).unwrap();
    assert_eq!(leads.table.users().len(), 1, "it is not committed");
    // What is proposed before that is checked against it.
    let (refused, asked) = submit(&mut leads, Command::RemoveUser(user("anna")));
    assert!(refused.is_none());
    assert_eq!(
        asked.answer(),
        Some(Err(Refusal::NoUser(user("anna")).into()))
    );
    leads.handle_committed(&entry).unwrap();
    assert_eq!(receiver.recv().unwrap(), Ok(2));
    let mut follows = machine();
    follows.handle_committed(&first.unwrap()).unwrap();
    follows
        .handle_committed(&Bytes::copy_from_slice(&entry))
        .unwrap();
    assert!(follows.table == leads.table && follows.table.users().len() == 20);
    assert_eq!(follows.table.encode(), leads.table.encode());
    assert_eq!(follows.table.bytes_held(), leads.table.bytes_held());
}

#[test]
fn an_import_that_others_have_come_before_changes_nothing() {
    let mut machine = machine();
    machine.handle_leader();
    let import = Import::new(&machine.access.table(), table_of(20)).unwrap();
    let (first, _asked) = submit(&mut machine, put_user("anna"));
    let (sender, receiver) = mpsc::channel();
    let submitted = Submitted {
        change: Change::All(Box::new(import)),
        only_at: None,
        answer: Box::new(move |result| sender.send(result).unwrap()),
    };
    assert_eq!(machine.propose(submitted, WallMs(7)), None);
    assert_eq!(receiver.recv().unwrap(), Err(ChangeError::Overtaken));
    machine.handle_committed(&first.unwrap()).unwrap();
    let names: Vec<&UserName> = machine.table.users().map(|(name, _)| name).collect();
    assert_eq!(names, [&user("anna")]);
}

#[test]
fn an_import_that_is_refused_is_not_made_ready() {
    let access = Access::alone();
    let mut bad = table_of(20);
    bad.apply(&Command::RemoveRole(RoleName::new("device").unwrap()));
    let (sender, receiver) = mpsc::channel();
    access.change(Command::Replace(Box::new(bad)), move |result| {
        sender.send(result).unwrap();
    });
    let refusal = Refusal::NoRole(RoleName::new("device").unwrap());
    assert_eq!(receiver.recv().unwrap(), Err(refusal.into()));
    assert!(!access.is_asked(), "no shard hears of it");
}
