//! How a delivery looks, in four bytes: QoS, RETAIN and a list of subscription identifiers, equal lists kept once.
//!
//! ```text
//! bits 0-1 QoS   bit 2 RETAIN   bits 3-31 number of the list, 0 for none
//! ```

use std::sync::Arc;

use courser_contract::QoS;
use hashbrown::HashMap;

/// Seeded: clients choose the identifiers.
type Hasher = foldhash::fast::RandomState;

const RETAIN: u32 = 1 << 2;
const LIST_SHIFT: u32 = 3;

/// The lists of subscription identifiers that streams refer to.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    lists: Vec<Option<(Arc<[u32]>, u32)>>,
    free: Vec<u32>,
    numbers: HashMap<Arc<[u32]>, u32, Hasher>,
}

impl Looks {
    /// The look of one more reference.
    #[inline]
    pub(crate) fn make(&mut self, qos: QoS, retain: bool, identifiers: Option<&Arc<[u32]>>) -> u32 {
        let plain = qos as u32 | if retain { RETAIN } else { 0 };
        match identifiers {
            None => plain,
            Some(list) => plain | self.keep(list) << LIST_SHIFT,
        }
    }

    fn keep(&mut self, list: &Arc<[u32]>) -> u32 {
        if let Some(&number) = self.numbers.get(list) {
            let place = self.lists[number as usize - 1].as_mut();
            place.expect("a numbered list is there").1 += 1;
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.lists.push(None);
            u32::try_from(self.lists.len()).expect("fewer than 2^29 lists")
        });
        self.lists[number as usize - 1] = Some((list.clone(), 1));
        self.numbers.insert(list.clone(), number);
        number
    }

    /// One reference less has this look.
    #[inline]
    pub(crate) fn release(&mut self, look: u32) {
        let number = look >> LIST_SHIFT;
        if number != 0 {
            self.release_list(number);
        }
    }

    fn release_list(&mut self, number: u32) {
        let place = &mut self.lists[number as usize - 1];
        let (list, count) = place.as_mut().expect("a look that is used has its list");
        *count -= 1;
        if *count == 0 {
            self.numbers.remove(list);
            *place = None;
            self.free.push(number);
        }
    }

    /// The identifiers.
    pub(crate) fn identifiers(&self, look: u32) -> Option<&Arc<[u32]>> {
        let number = look >> LIST_SHIFT;
        let place = self.lists.get((number as usize).checked_sub(1)?)?;
        place.as_ref().map(|(list, _)| list)
    }
}

/// QoS of a look.
pub(crate) const fn qos(look: u32) -> QoS {
    match look & 3 {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}

/// RETAIN of a look.
pub(crate) const fn retain(look: u32) -> bool {
    look & RETAIN != 0
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn i10_nobody_can_choose_identifiers_that_collide() {
        let hash = |looks: &Looks| looks.numbers.hasher().hash_one([1_u32, 2, 3].as_slice());
        assert_ne!(hash(&Looks::default()), hash(&Looks::default()));
    }
}
