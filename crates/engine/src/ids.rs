//! Numbers of sessions and groups: one space, so that a stream is named by one number (M7).
//!
//! ```text
//! bit 63: a group   bits 24-62: counter, never used twice in a partition   bits 0-23: place in the table, used again
//! ```
//!
//! With the place in the number, finding a session costs one index and one comparison.

const PLACE_BITS: u32 = 24;
const GROUP: u64 = 1 << 63;

/// Most sessions, and most groups, of a partition.
pub(crate) const PLACES_MAX: u32 = 1 << PLACE_BITS;

/// Counters are below.
pub(crate) const COUNTER_MAX: u64 = 1 << (63 - PLACE_BITS);

/// What a stream belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Session,
    Group,
}

/// Number of the stream at `place` of the owner's table.
pub(crate) const fn stream_of(owner: Owner, counter: u64, place: u32) -> u64 {
    let number = counter << PLACE_BITS | place as u64;
    match owner {
        Owner::Session => number,
        Owner::Group => number | GROUP,
    }
}

/// Whose stream it is.
pub(crate) const fn owner(stream: u64) -> Owner {
    if stream & GROUP == 0 {
        Owner::Session
    } else {
        Owner::Group
    }
}

/// Place in the table of its owner.
pub(crate) const fn place(stream: u64) -> usize {
    (stream & (PLACES_MAX as u64 - 1)) as usize
}

/// Its counter.
pub(crate) const fn counter(stream: u64) -> u64 {
    (stream & !GROUP) >> PLACE_BITS
}

/// A table of what has numbers of this kind.
#[derive(Debug)]
pub(crate) struct Table<T> {
    places: Vec<Option<(u64, T)>>,
    len: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Table<T> {
    /// What has this number.
    pub(crate) fn get(&self, stream: u64) -> Option<&T> {
        match self.places.get(place(stream)) {
            Some(Some((number, value))) if *number == stream => Some(value),
            Some(_) | None => None,
        }
    }

    /// The same to change.
    pub(crate) fn get_mut(&mut self, stream: u64) -> Option<&mut T> {
        match self.places.get_mut(place(stream)) {
            Some(Some((number, value))) if *number == stream => Some(value),
            Some(_) | None => None,
        }
    }

    /// What is at a place, whatever its number.
    pub(crate) fn at(&self, place: u32) -> Option<&T> {
        self.places
            .get(place as usize)?
            .as_ref()
            .map(|(_, value)| value)
    }

    /// The same with its number.
    pub(crate) fn numbered_at(&self, place: u32) -> Option<(u64, &T)> {
        let (number, value) = self.places.get(place as usize)?.as_ref()?;
        Some((*number, value))
    }

    /// The same to change.
    pub(crate) fn at_mut(&mut self, place: u32) -> Option<&mut T> {
        self.numbered_at_mut(place).map(|(_, value)| value)
    }

    /// The same with its number.
    pub(crate) fn numbered_at_mut(&mut self, place: u32) -> Option<(u64, &mut T)> {
        let (number, value) = self.places.get_mut(place as usize)?.as_mut()?;
        Some((*number, value))
    }

    /// Places of the table, free ones included.
    pub(crate) const fn places(&self) -> usize {
        self.places.len()
    }

    /// All to change, by place.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> + '_ {
        let places = self.places.iter_mut().flatten();
        places.map(|(number, value)| (*number, value))
    }

    /// Puts something where its number says. The place is free: the leader chose it.
    pub(crate) fn insert(&mut self, stream: u64, value: T) {
        let place = place(stream);
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        assert!(
            self.places[place].is_none(),
            "a place is given once at a time"
        );
        self.places[place] = Some((stream, value));
        self.len += 1;
    }

    /// Takes it out.
    pub(crate) fn remove(&mut self, stream: u64) -> Option<T> {
        self.get(stream)?;
        self.len -= 1;
        self.places[place(stream)].take().map(|(_, value)| value)
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// All, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> + '_ {
        let places = self.places.iter().flatten();
        places.map(|(number, value)| (*number, value))
    }

    /// All numbers in ascending order, for canonical bytes.
    pub(crate) fn sorted(&self) -> Vec<u64> {
        let mut numbers: Vec<_> = self.iter().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Gives numbers out; the leader's memory.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    last: u64,
    end: u32,
    free: Vec<u32>,
}

impl Numbers {
    /// Starts from what is there; `last` is the highest counter that was ever used.
    pub(crate) fn of<T>(table: &Table<T>, last: u64) -> Self {
        let end = u32::try_from(table.places.len()).expect("a table has at most 2^24 places");
        let free = (0..end)
            .rev()
            .filter(|&place| table.at(place).is_none())
            .collect();
        Self { last, end, free }
    }

    /// A number that was never used; none when the table is full.
    pub(crate) fn next(&mut self, owner: Owner) -> Option<u64> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.end < PLACES_MAX => {
                self.end += 1;
                self.end - 1
            }
            None => return None,
        };
        self.last += 1;
        Some(stream_of(owner, self.last, place))
    }

    /// The place of this number may be used again.
    pub(crate) fn free(&mut self, stream: u64) {
        self.free
            .push(u32::try_from(place(stream)).expect("a place has 24 bits"));
    }
}
