//! The targets of a set, packed: what comes once for a list must be small beside the lists of a thousand sessions (M8).
//!
//! ```text
//! u32 targets, then for each: u8 flags: bits 0-1 QoS, 2-3 RETAIN, 4 a group, 5 identifiers follow
//!                             its counter less that of the target before, and its place less that one's, signed
//!                             then, if the flags say so, how many identifiers, and these
//! ```
//!
//! Numbers are of variable length ([`varint`]). Sessions that were made one after the other take three bytes each.

use courser_contract::QoS;

use super::{IDENTIFIERS_MAX, RetainMark, Target};
use crate::{
    canonical::{Canonical, DecodeError, Reader, write_count},
    ids::{self, COUNTER_MAX, Owner, PLACES_MAX},
    varint,
};

const RETAIN_SHIFT: u32 = 2;
const GROUP: u8 = 1 << 4;
const IDENTIFIERS: u8 = 1 << 5;
const FLAGS_END: u8 = 1 << 6;
/// Flags and two numbers.
const TARGET_BYTES_MIN: usize = 3;

/// A list of targets as an entry says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedTargets(pub(crate) Vec<Target>);

/// Counter and place of the target before.
type Before = (i64, i64);

impl Canonical for PackedTargets {
    const MIN_BYTES: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        write_count(self.0.len(), out);
        let mut before = (0, 0);
        for target in &self.0 {
            write_target(target, &mut before, out);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count(TARGET_BYTES_MIN)?;
        let mut before = (0, 0);
        let targets = (0..count).map(|_| read_target(reader, &mut before));
        targets.collect::<Result<_, _>>().map(Self)
    }
}

fn write_target(target: &Target, before: &mut Before, out: &mut Vec<u8>) {
    let identifiers = target.identifiers.as_deref();
    let group = match ids::owner(target.stream) {
        Owner::Session => 0,
        Owner::Group => GROUP,
    };
    let identified = identifiers.map_or(0, |_| IDENTIFIERS);
    out.push(target.qos as u8 | (target.retain as u8) << RETAIN_SHIFT | group | identified);
    let counter = ids::counter(target.stream).cast_signed();
    let place = ids::place(target.stream) as i64;
    varint::write(varint::zigzag(counter - before.0), out);
    varint::write(varint::zigzag(place - before.1), out);
    *before = (counter, place);
    if let Some(identifiers) = identifiers {
        varint::write(identifiers.len() as u64, out);
        for &identifier in identifiers {
            varint::write(u64::from(identifier), out);
        }
    }
}

fn read_target(reader: &mut Reader<'_>, before: &mut Before) -> Result<Target, DecodeError> {
    let flags = reader.read::<u8>()?;
    let qos = QoS::from_bits(flags & 3);
    let retain = RetainMark::from_bits(flags >> RETAIN_SHIFT & 3);
    let (Some(qos), Some(retain), true) = (qos, retain, flags < FLAGS_END) else {
        return Err(DecodeError::Invalid("flags of a target"));
    };
    let counter = step(reader, before.0, COUNTER_MAX)?;
    let place = step(reader, before.1, u64::from(PLACES_MAX))?;
    *before = (counter.cast_signed(), i64::from(place as u32));
    let owner = match flags & GROUP {
        0 => Owner::Session,
        _ => Owner::Group,
    };
    let identifiers = match flags & IDENTIFIERS {
        0 => None,
        _ => Some(read_identifiers(reader)?.into()),
    };
    Ok(Target {
        stream: ids::stream_of(owner, counter, place as u32),
        qos,
        retain,
        identifiers,
    })
}

/// A number below `end`, as its difference to the one before.
fn step(reader: &mut Reader<'_>, before: i64, end: u64) -> Result<u64, DecodeError> {
    let difference = varint::unzigzag(varint::read(reader)?);
    let number = before.checked_add(difference);
    let number = number.and_then(|number| u64::try_from(number).ok());
    number
        .filter(|number| *number < end)
        .ok_or(DecodeError::Invalid("stream of a target"))
}

fn read_identifiers(reader: &mut Reader<'_>) -> Result<Vec<u32>, DecodeError> {
    let count = varint::read(reader)?;
    if count > IDENTIFIERS_MAX as u64 {
        return Err(DecodeError::Invalid("identifiers of a target"));
    }
    let identifier = |_| {
        let number = varint::read(reader)?;
        u32::try_from(number).map_err(|_| DecodeError::Invalid("identifier of a target"))
    };
    (0..count).map(identifier).collect()
}

#[cfg(test)]
mod tests;
