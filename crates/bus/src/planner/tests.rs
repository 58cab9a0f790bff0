//! Plans of keys that have much in common.

use super::*;
use crate::handler::{Handler, SubscriptionRef};
use crate::key::Key;
use crate::plan::PlanPool;
use crate::slot::{Pool, Slot, SlotLayout};

struct Noop;

impl Handler<()> for Noop {
    fn handle(&self, _: SubscriptionRef<'_, ()>, _: &Key, _: &()) {}
}

/// A list of so many slots, of which nothing but the addresses counts here.
fn list(pool: &mut Pool, slots: u32) -> NonNull<Chunk> {
    let (mut head, mut left) = (None::<NonNull<Chunk>>, slots);
    while left != 0 {
        // SAFETY: chunks live as long as the pool, and nobody else has this one.
        let after = head.map(|head| unsafe { head.as_ref() }.capacity());
        let chunk = pool.take(after);
        // SAFETY: as above.
        let header = unsafe { chunk.as_ref() };
        header.set_next(head);
        let here = left.min(header.capacity());
        header.set_len(here);
        for at in 0..here {
            // SAFETY: below the capacity of a chunk of this layout.
            unsafe { Chunk::slot(chunk, const { SlotLayout::of::<Noop>() }, at).as_ref() }
                .publish(1);
        }
        left -= here;
        head = Some(chunk);
    }
    head.expect("a list has a slot")
}

fn share(plans: &mut PlanPool, planner: &mut Planner, lists: &[(u32, NonNull<Chunk>)]) -> PlanRef {
    for &(ty, head) in lists {
        let layout = const { SlotLayout::of::<Noop>() };
        let walks = Walks::of::<(), Noop>();
        let size = size_of::<Slot<Noop>>();
        // SAFETY: the lists are of this type, as far as plans are concerned, and nobody changes them.
        unsafe { planner.add(ty, walks, Some(head), layout.first_slot(), size) };
    }
    plans.share(planner)
}

#[test]
fn what_keys_have_in_common_is_held_once() {
    let mut chunks = Pool::new(const { SlotLayout::of::<Noop>() });
    let (mut plans, mut planner) = (PlanPool::default(), Planner::new(Marks::of::<()>()));
    // Five types, of which each has a list of 5 slots that are entered one by one and 15 in a chunk.
    let common: Vec<(u32, NonNull<Chunk>)> = (0..5).map(|ty| (ty, list(&mut chunks, 20))).collect();
    let own: Vec<NonNull<Chunk>> = (0..100).map(|_| list(&mut chunks, 1)).collect();
    let mut made = Vec::new();
    for &head in &own {
        let mut lists = common.clone();
        lists.insert(2, (3, head));
        let plan = share(&mut plans, &mut planner, &lists);
        assert_eq!(plan.singles(), 5 * 5 + 1);
        made.push(plan);
    }
    assert_eq!(plans.len(), own.len() + 1, "each key's own, and the base");
    let (whole, only_base) = (plans.bytes(), share(&mut plans, &mut planner, &common));
    assert_eq!(plans.len(), own.len() + 1, "the base is a plan as any");
    assert_eq!(only_base.singles(), 5 * 5);
    assert!(
        whole <= own.len() * 64 + 512,
        "{whole} bytes: a line each, and the base"
    );

    let again = share(&mut plans, &mut planner, &{
        let mut lists = vec![(3, own[7])];
        lists.extend(common.iter().rev());
        lists
    });
    assert_eq!(again, made[7], "the order of lists does not matter");
    made.extend([only_base, again]);
    made.into_iter().for_each(|plan| plans.release(plan));
    assert_eq!((plans.len(), plans.bytes()), (0, 0));
}

#[test]
fn a_small_plan_stands_alone() {
    let mut chunks = Pool::new(const { SlotLayout::of::<Noop>() });
    let (mut plans, mut planner) = (PlanPool::default(), Planner::new(Marks::of::<()>()));
    let common = (0, list(&mut chunks, 20));
    for _ in 0..10 {
        let own = (1, list(&mut chunks, 1));
        share(&mut plans, &mut planner, &[common, own]);
    }
    assert_eq!(plans.len(), 10);
}
