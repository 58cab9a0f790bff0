use std::collections::{BTreeMap, BTreeSet, VecDeque};

use courser_contract::{PartitionId, Seq, SessionUid, Tick};
use proptest::prelude::*;

use super::*;
use crate::canonical::read_whole;

const HERE: PartitionId = PartitionId(1);
const THERE: PartitionId = PartitionId(2);

fn forward(item: u32, session: u64, refusable: Refusable) -> Forward<u32> {
    Forward {
        item,
        session: (session > 0).then_some(SessionUid(session)),
        refusable,
    }
}

fn plain(item: u32) -> Forward<u32> {
    forward(item, 1, Refusable::No)
}

/// Positions that the sender lets go now, as the items that they hold.
fn sent(sender: &mut Sender, outboxes: &Outboxes<u32>) -> Vec<u32> {
    let outbox = outboxes.get(THERE).expect("something was pushed");
    let mut looks = usize::MAX;
    std::iter::from_fn(|| Some(sender.next(outbox, &mut looks)?.1.item)).collect()
}

#[test]
fn m19_positions_never_repeat_over_starts() {
    let mut outboxes = Outboxes::default();
    outboxes.begin(1);
    assert_eq!(outboxes.push(THERE, plain(0)), Seq(1 << 40));
    assert_eq!(outboxes.push(THERE, plain(1)), Seq((1 << 40) + 1));
    assert_eq!(
        outboxes.push(HERE, plain(2)),
        Seq(1 << 40),
        "one for each destination"
    );
    outboxes.settle(HERE, Seq(1 << 40));
    outboxes.begin(2);
    assert_eq!(outboxes.push(THERE, plain(3)), Seq(2 << 40));
    assert_eq!(outboxes.push(HERE, plain(4)), Seq(2 << 40));
    let outbox = outboxes.get(THERE).expect("it waits");
    assert_eq!(
        outbox.floor(),
        Seq(1 << 40),
        "what waited keeps its position"
    );
    assert_eq!(outboxes.len(), 4);
    outboxes.begin(2);
    assert_eq!(outboxes.push(THERE, plain(5)), Seq((2 << 40) + 1));
    outboxes.check();
}

#[test]
fn the_floor_is_below_all_that_waits() {
    let mut outboxes = Outboxes::default();
    for item in 0..4 {
        outboxes.push(THERE, plain(item));
    }
    let floor = |outboxes: &Outboxes<u32>| outboxes.get(THERE).expect("it exists").floor();
    for (settled, expected) in [(1, 0), (0, 2), (3, 2), (2, 4)] {
        assert!(outboxes.settle(THERE, Seq(settled)).is_some());
        assert!(outboxes.settle(THERE, Seq(settled)).is_none(), "once");
        assert_eq!(floor(&outboxes), Seq(expected));
        outboxes.check();
    }
    assert_eq!(outboxes.get(THERE).expect("it exists").next(), Seq(4));
}

#[test]
fn m19_a_waiting_forward_holds_back_only_its_own_session() {
    let mut outboxes = Outboxes::default();
    for (item, session, refusable) in [
        (0, 1, Refusable::Yes),
        (1, 1, Refusable::No),
        (2, 2, Refusable::No),
        (3, 0, Refusable::Yes),
        (4, 1, Refusable::Yes),
        (5, 1, Refusable::No),
        (6, 2, Refusable::No),
    ] {
        outboxes.push(THERE, forward(item, session, refusable));
    }
    let mut sender = Sender::default();
    assert_eq!(sent(&mut sender, &outboxes), [0, 2, 3, 6]);
    let outbox = outboxes.get(THERE).expect("it waits");
    sender.refused(outbox, Seq(0), Tick(50));
    sender.refused(outbox, Seq(3), Tick(40));
    assert_eq!(sent(&mut sender, &outboxes), [] as [u32; 0]);
    assert_eq!(sender.poll_timeout(), Some(Tick(40)));
    sender.handle_timeout(Tick(49));
    assert_eq!(sent(&mut sender, &outboxes), [3]);
    sender.handle_timeout(Tick(50));
    assert_eq!(sent(&mut sender, &outboxes), [0]);
    assert_eq!(sender.poll_timeout(), None);
    sender.settled(outbox, Seq(0), Some(SessionUid(1)));
    assert_eq!(
        sent(&mut sender, &outboxes),
        [1, 4],
        "up to the next that may be refused"
    );
    sender.settled(outbox, Seq(4), Some(SessionUid(1)));
    assert_eq!(sent(&mut sender, &outboxes), [5]);
}

#[test]
fn i10_sending_goes_on_where_it_stopped() {
    let mut outboxes = Outboxes::default();
    for (item, session) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2)] {
        outboxes.push(THERE, forward(item, session, Refusable::Yes));
    }
    let outbox = outboxes.get(THERE).expect("it was pushed to");
    let mut sender = Sender::default();
    // What is parked is looked at, too.
    for (looks, expected) in [(1, Some(0)), (2, None), (1, Some(3)), (9, None)] {
        let found = sender.next(outbox, &mut { looks });
        assert_eq!(found.map(|(_, forward)| forward.item), expected);
    }
}

#[test]
fn a_forward_that_is_given_up_lets_the_others_go() {
    let mut outboxes = Outboxes::default();
    for item in 0..3 {
        outboxes.push(THERE, forward(item, 1, Refusable::Yes));
    }
    let mut sender = Sender::default();
    assert_eq!(sent(&mut sender, &outboxes), [0]);
    sender.refused(outboxes.get(THERE).expect("it waits"), Seq(0), Tick(9));
    for seq in [1, 0] {
        outboxes.settle(THERE, Seq(seq));
        sender.settled(
            outboxes.get(THERE).expect("it exists"),
            Seq(seq),
            Some(SessionUid(1)),
        );
    }
    assert_eq!(
        sent(&mut sender, &outboxes),
        [2],
        "1 was given up while it was parked"
    );
    sender.handle_timeout(Tick(9));
    assert_eq!(sent(&mut sender, &outboxes), [] as [u32; 0]);
}

#[test]
fn m19_a_new_leader_sends_all_that_waits_again() {
    let mut outboxes = Outboxes::default();
    for item in 0..3 {
        outboxes.push(THERE, plain(item));
    }
    let mut sender = Sender::default();
    assert_eq!(sent(&mut sender, &outboxes), [0, 1, 2]);
    outboxes.settle(THERE, Seq(1));
    sender.restart();
    assert_eq!(sent(&mut sender, &outboxes), [0, 2]);
}

#[test]
fn m19_repeats_and_what_is_below_the_floor_are_known() {
    let mut inbox = Inbox::default();
    assert!(inbox.take(HERE, Seq(5), Seq(4)));
    for (seq, floor, expected) in [
        (5, 4, KnownForward::Repeat),
        (4, 4, KnownForward::New), // refused or not seen: its source still has it
        (3, 4, KnownForward::Repeat),
        (6, 4, KnownForward::New),
        (4, 5, KnownForward::Repeat),
        (1 << 40, 5, KnownForward::New),
    ] {
        assert_eq!(
            inbox.classify(HERE, Seq(seq), Seq(floor)),
            expected,
            "{seq} from {floor}"
        );
    }
    assert!(!inbox.take(HERE, Seq(5), Seq(4)));
    assert!(inbox.take(HERE, Seq(8), Seq(7)));
    for seq in [4, 5, 6] {
        let known = inbox.classify(HERE, Seq(seq), Seq(4));
        assert_eq!(known, KnownForward::Repeat, "a floor never falls: {seq}");
    }
    assert_eq!(
        inbox.classify(THERE, Seq(5), Seq(4)),
        KnownForward::New,
        "another source"
    );
    inbox.check();
}

/// The same, made as a checkpoint is read.
fn put_back(outboxes: &Outboxes<u32>) -> Outboxes<u32> {
    let mut back = Outboxes::with_base(outboxes.base());
    for (destination, outbox) in outboxes.iter() {
        assert!(back.restore(destination, outbox.next()));
        for (seq, forward) in outbox.iter() {
            assert!(back.restore_forward(destination, seq, forward.clone()));
        }
    }
    back.check();
    back
}

fn bytes_of(outboxes: &Outboxes<u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    outboxes.encode(&mut bytes, |item, out| item.write(out));
    bytes
}

#[test]
fn what_was_not_pushed_is_not_put_back() {
    let mut outboxes = Outboxes::default();
    outboxes.push(THERE, forward(7, 0, Refusable::Yes));
    outboxes.push(THERE, plain(8));
    let mut back = put_back(&outboxes);
    assert_eq!(bytes_of(&back), bytes_of(&outboxes));
    for (destination, seq) in [(THERE, 1), (THERE, 2), (HERE, 0)] {
        assert!(
            !back.restore_forward(destination, Seq(seq), plain(9)),
            "{seq} to {destination:?}"
        );
    }
    assert!(!back.restore(THERE, Seq(2)), "the outbox is there");
}

/// One source and one destination over a link that keeps order, loses everything when it breaks, and lets answers through
/// before or after that.
#[derive(Default)]
struct World {
    outboxes: Outboxes<u32>,
    sender: Sender,
    there: VecDeque<(Seq, Forward<u32>, Seq)>,
    back: VecDeque<(Seq, Option<SessionUid>, bool)>,
    inbox: Inbox,
    stored: Vec<Forward<u32>>,
    now: u64,
}

impl World {
    fn send(&mut self) {
        let Some(outbox) = self.outboxes.get(THERE) else {
            return;
        };
        let mut looks = usize::MAX;
        while let Some((seq, forward)) = self.sender.next(outbox, &mut looks) {
            self.there.push_back((seq, forward.clone(), outbox.floor()));
        }
    }

    fn arrive(&mut self, refuse: bool) {
        let Some((seq, forward, floor)) = self.there.pop_front() else {
            return;
        };
        let new = self.inbox.classify(HERE, seq, floor) == KnownForward::New;
        if new && !refuse {
            assert!(self.inbox.take(HERE, seq, floor));
            self.stored.push(forward.clone());
        }
        self.inbox.check();
        self.back.push_back((seq, forward.session, new && refuse));
    }

    fn answer(&mut self) {
        let Some((seq, session, refused)) = self.back.pop_front() else {
            return;
        };
        if !refused {
            self.outboxes.settle(THERE, seq);
        }
        self.outboxes.check();
        let outbox = self.outboxes.get(THERE).expect("it was pushed to");
        if refused {
            self.sender.refused(outbox, seq, Tick(self.now + 3));
        } else {
            self.sender.settled(outbox, seq, session);
        }
    }

    fn step(&mut self, kind: u8, item: u32, refusable: Refusable, refuse: bool) {
        match kind {
            0..=2 => {
                let session = u64::from(item % 3);
                self.outboxes.push(THERE, forward(item, session, refusable));
            }
            3 | 4 => self.send(),
            5 | 6 => self.arrive(refuse),
            7 | 8 => self.answer(),
            9 => {
                self.now += 1;
                self.sender.handle_timeout(Tick(self.now));
            }
            _ => {
                // The link breaks; what was stored and not answered is sent again.
                self.there.clear();
                self.back.clear();
                self.sender.restart();
            }
        }
    }

    /// Without faults everything arrives in a bounded number of steps.
    fn heal(&mut self) {
        for _ in 0..5_000 {
            if self.outboxes.len() == 0 {
                return;
            }
            self.now += 1;
            self.sender.handle_timeout(Tick(self.now));
            self.send();
            self.arrive(false);
            self.answer();
        }
        panic!("{} forwards never left", self.outboxes.len());
    }

    fn stored_of(&self, session: u64) -> Vec<u32> {
        let of = |forward: &&Forward<u32>| forward.session.map_or(0, |uid| uid.0) == session;
        self.stored
            .iter()
            .filter(of)
            .map(|forward| forward.item)
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// M19: exactly once whatever is lost and refused, and in order for each session when only those refuse that may.
    #[test]
    fn m19_forwards_arrive_once_and_in_each_sessions_order(
        steps in prop::collection::vec((0_u8..11, any::<bool>(), any::<bool>()), 1..300),
        obedient in any::<bool>(),
    ) {
        let mut world = World::default();
        let mut pushed = 0;
        for (kind, refusable, refuse) in steps {
            let refusable = if refusable { Refusable::Yes } else { Refusable::No };
            let may = world.there.front().is_some_and(|(_, forward, _)| forward.refusable == Refusable::Yes);
            world.step(kind, pushed, refusable, refuse && (may || !obedient));
            pushed += u32::from(kind <= 2);
        }
        world.heal();
        let stored: BTreeSet<u32> = world.stored.iter().map(|forward| forward.item).collect();
        prop_assert_eq!(world.stored.len(), stored.len(), "nothing twice");
        prop_assert_eq!(stored.len(), pushed as usize, "nothing lost");
        if obedient {
            for session in [1, 2] {
                let items = world.stored_of(session);
                prop_assert!(items.is_sorted(), "session {}: {:?}", session, items);
            }
        }
        prop_assert!(world.inbox.ranges() <= 1, "all is taken: one range");
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn replicated_sides_behave_like_maps(
        steps in prop::collection::vec((0_u8..6, 0_u64..20, 0_u16..3), 1..200)
    ) {
        let mut outboxes = Outboxes::default();
        let mut model: BTreeMap<(u16, u64), u32> = BTreeMap::new();
        let mut inbox = Inbox::default();
        let mut taken: BTreeSet<(u16, u64)> = BTreeSet::new();
        let mut floors = [0_u64; 3];
        let mut start = 0;
        for (n, (kind, number, partition)) in steps.into_iter().enumerate() {
            let to = PartitionId(partition);
            match kind {
                0 | 1 => {
                    let seq = outboxes.push(to, plain(n as u32));
                    let fresh = model.keys().all(|&(at, before)| at != partition || before < seq.0);
                    prop_assert!(fresh, "positions ascend");
                    prop_assert_eq!(seq.0 >> 40, u64::from(start));
                    model.insert((partition, seq.0), n as u32);
                }
                2 => {
                    let waiting: Vec<_> = model.keys().filter(|key| key.0 == partition).copied().collect();
                    let key = waiting.get(number as usize).copied().unwrap_or((partition, number));
                    let settled = outboxes.settle(to, Seq(key.1)).map(|forward| forward.item);
                    prop_assert_eq!(settled, model.remove(&key));
                }
                3 if number == 0 => {
                    start += 1;
                    outboxes.begin(start);
                }
                _ => {
                    let floor = &mut floors[usize::from(partition)];
                    *floor = (*floor).max(number.saturating_sub(10));
                    let new = number >= *floor && taken.insert((partition, number));
                    prop_assert_eq!(inbox.take(to, Seq(number), Seq(*floor)), new);
                }
            }
            outboxes.check();
            inbox.check();
            prop_assert_eq!(outboxes.len(), model.len());
            let all: BTreeMap<(u16, u64), u32> = outboxes
                .iter()
                .flat_map(|(to, outbox)| outbox.iter().map(move |(seq, forward)| ((to.0, seq.0), forward.item)))
                .collect();
            prop_assert_eq!(&all, &model);
            let mut bytes = Vec::new();
            inbox.encode(&mut bytes);
            prop_assert_eq!(read_whole(&bytes, Inbox::read), Ok(inbox.clone()));
            prop_assert_eq!(bytes_of(&put_back(&outboxes)), bytes_of(&outboxes));
        }
    }
}
