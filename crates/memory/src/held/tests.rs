//! The table without the allocator; both at work are in `tests/held.rs`.

use super::{DOUBLINGS_MAX, Held, Note, SLOTS, Table, is_taken, rarity};
use crate::Component;
use proptest::prelude::*;
use std::collections::HashMap;

impl Table {
    fn empty() -> Box<Self> {
        Box::new(Self {
            slots: [Note::NONE; SLOTS],
            used: 0,
            doublings: 0,
            held: [0; Component::COUNT],
        })
    }

    /// Panics when an invariant of the module does not hold.
    fn check(&self) {
        let mut held = [0; Component::COUNT];
        let mut used = 0;
        for (slot, note) in self.slots.iter().enumerate() {
            if note.address == 0 {
                continue;
            }
            used += 1;
            held[note.component.index()] += note.weight(self.doublings);
            assert!(is_taken(note.address, note.size, self.doublings));
            let mut on_the_way = note.home();
            while on_the_way != slot {
                assert_ne!(
                    self.slots[on_the_way].address, 0,
                    "a note is reached from its home"
                );
                on_the_way = (on_the_way + 1) % SLOTS;
            }
        }
        assert_eq!((used, held), (self.used, self.held));
        assert!(used <= SLOTS / 2);
    }
}

fn note(address: usize, size: usize, component: Component) -> Note {
    Note {
        address,
        size,
        component,
    }
}

#[test]
fn blocks_of_a_step_are_all_there_and_of_smaller_ones_as_many_as_make_a_step() {
    for (size, doublings, expected) in [
        (1 << 20, 0, 1),
        (32 << 10, 0, 1),
        ((16 << 10) + 1, 0, 1),
        (16 << 10, 0, 2),
        (64, 0, 512),
        (65, 0, 256),
        (1, 0, 32 << 10),
        (64, 3, 4_096),
        (32 << 10, 1, 2),
        (usize::MAX, DOUBLINGS_MAX, 1),
    ] {
        assert_eq!(
            1_u64 << rarity(size, doublings),
            expected,
            "{size} {doublings}"
        );
    }
}

#[test]
fn blocks_in_a_row_are_sampled_as_often_as_they_should() {
    for size in [16, 48, 64, 320, 4_096, 10_240] {
        let count = 64 << 20;
        let rows = (0..count / size).map(|number| 0x7f12_3450_0000 + number * size);
        let taken = rows.filter(|&address| is_taken(address, size, 0)).count();
        let estimate = (taken * size) << rarity(size, 0);
        let off = estimate as f64 / count as f64 - 1.0;
        assert!(off.abs() < 0.1, "{size}: {off}");
    }
}

#[test]
fn more_than_the_table_takes_makes_the_step_larger_and_the_estimate_stays() {
    let mut table = Table::empty();
    let (large, small) = (Component::Output, Component::Router);
    for number in 0..40_000 {
        table.insert(note(0x1000_0000 + number * 65_536, 65_536, large));
        table.insert(note(0xf000_0000_0000 + number * 16_384, 16_384, small));
        if number % 4_001 == 0 {
            table.check();
        }
    }
    table.check();
    assert!(table.doublings >= 3, "{}", table.doublings);
    for (component, expected) in [(large, 65_536_u32), (small, 16_384)] {
        let off = table.held[component.index()] as f64 / (40_000.0 * f64::from(expected)) - 1.0;
        assert!(off.abs() < 0.1, "{component}: {off}");
    }
    for number in 0..40_000 {
        table.remove(0x1000_0000 + number * 65_536);
        table.remove(0xf000_0000_0000 + number * 16_384);
    }
    table.check();
    assert_eq!((table.used, table.held), (0, [0; Component::COUNT]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_removed_is_what_was_put_in(steps in prop::collection::vec((0_usize..200, any::<bool>()), 0..400)) {
        let mut table = Table::empty();
        let mut model = HashMap::new();
        // Crowded around few homes, so that notes stand behind each other.
        let crowd: Vec<usize> = (1_usize..).map(|n| n * 65_536).filter(|&at| super::home(at) % 4_096 < 8).take(200).collect();
        for (which, is_insert) in steps {
            let address = crowd[which];
            let component = Component::ALL[which % Component::COUNT];
            if is_insert && !model.contains_key(&address) {
                table.insert(note(address, 65_536, component));
                model.insert(address, component);
            } else if !is_insert {
                prop_assert_eq!(table.remove(address), model.remove(&address));
            }
            // All slots are looked at: not after each step.
            if which % 64 == 0 {
                table.check();
            }
        }
        table.check();
        prop_assert_eq!(table.used, model.len());
    }

    #[test]
    fn shares_add_up(total in any::<u64>(), noted in any::<[u32; Component::COUNT]>()) {
        let held = Held::share_out(total, noted.map(u64::from));
        let sum: u128 = held.bytes.iter().map(|&bytes| u128::from(bytes)).sum();
        prop_assert_eq!(sum, u128::from(total));
        prop_assert_eq!(held.largest().1, held.bytes.into_iter().max().unwrap_or(0));
    }
}

#[test]
fn without_a_note_all_is_others() {
    let held = Held::share_out(1_000, [0; Component::COUNT]);
    assert_eq!((held.of(Component::Other), held.total()), (1_000, 1_000));
    assert_eq!(held.largest(), (Component::Other, 1_000));
}
