use std::collections::BTreeMap;

use courser_contract::Seq;
use proptest::prelude::*;

use super::*;

fn same(table: &SeqTable<u32>, model: &BTreeMap<u64, u32>) {
    table.check();
    assert_eq!(table.len(), model.len());
    assert_eq!(table.is_empty(), model.is_empty());
    let all: Vec<_> = table.iter().map(|(seq, &value)| (seq.0, value)).collect();
    let expected: Vec<_> = model.iter().map(|(&seq, &value)| (seq, value)).collect();
    assert_eq!(all, expected);
    assert_eq!(
        table.first().map(|(seq, _)| seq.0),
        model.keys().next().copied()
    );
}

#[test]
fn one_stuck_entry_does_not_pin_what_comes_after_it() {
    let mut table = SeqTable::default();
    table.insert(Seq(5), 5);
    for seq in 6..100_000 {
        table.insert(Seq(seq), 0);
        table.remove(Seq(seq));
        assert!(table.ring.len() < 200, "the ring stays short");
    }
    assert_eq!(table.get(Seq(5)), Some(&5));
    assert_eq!(table.len(), 1);
    table.check();
}

#[test]
fn a_jump_starts_a_new_ring() {
    let mut table = SeqTable::default();
    for seq in [1, 2, 1 << 40, (1 << 40) + 1] {
        table.insert(Seq(seq), seq);
    }
    assert!(table.ring.len() == 2, "nothing fills the jump");
    assert_eq!(table.next_from(Seq(3)), Some((Seq(1 << 40), &(1 << 40))));
    assert_eq!(table.next_from(Seq(2)), Some((Seq(2), &2)));
    assert_eq!(table.next_from(Seq((1 << 40) + 2)), None);
    table.check();
}

proptest! {
    #[test]
    fn behaves_like_a_tree(
        steps in prop::collection::vec((0_u8..8, 0_u64..300, any::<u32>()), 1..400)
    ) {
        let mut table = SeqTable::default();
        let mut model = BTreeMap::new();
        let mut next = 10;
        for (kind, seq, value) in steps {
            match kind {
                0..=2 => {
                    next += if seq > 295 { 1000 } else { 1 + seq % 2 };
                    prop_assert_eq!(table.insert(Seq(next), value), model.insert(next, value));
                }
                3 => prop_assert_eq!(table.insert(Seq(seq), value), model.insert(seq, value)),
                4 => {
                    let seq = next.saturating_sub(seq % 16);
                    prop_assert_eq!(table.remove(Seq(seq)), model.remove(&seq));
                }
                5 => {
                    let seq = table.next_from(Seq(seq)).map_or(seq, |(seq, _)| seq.0);
                    prop_assert_eq!(table.remove(Seq(seq)), model.remove(&seq));
                }
                6 => prop_assert_eq!(
                    table.next_from(Seq(seq)).map(|(seq, &value)| (seq.0, value)),
                    model.range(seq..).next().map(|(&seq, &value)| (seq, value))
                ),
                _ => {
                    prop_assert_eq!(table.get(Seq(seq)), model.get(&seq));
                    prop_assert_eq!(table.get_mut(Seq(next)), model.get_mut(&next));
                }
            }
            next = next.max(model.keys().next_back().copied().unwrap_or(0));
            same(&table, &model);
        }
    }
}
