//! How many different addresses were told, about: a HyperLogLog.
//!
//! A message for many streams is named by a checkpoint once for each of them, all over the file. To count it once exactly would take
//! a note of every address that is needed.

use super::wants::Address;

/// See the module. The same addresses give the same count in whatever order and however often they come, and more of them never
/// fewer: two counts of one segment can be compared.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    /// Of the addresses with a hash that begins like the place: the most leading zeros of the rest, and one.
    registers: Box<[u8]>,
    /// Addresses told: there are no more different ones.
    told: u64,
}

impl Sketch {
    /// With 2^`bits` bytes, of 4 to 16 bits. The standard error is 1.04 / √bytes: 6.5 % with 8 bits, 1.6 % with 12.
    pub(super) fn new(bits: u32) -> Self {
        debug_assert!((4..=16).contains(&bits), "a sketch of 2^{bits} bytes");
        Self {
            registers: vec![0; 1 << bits].into(),
            told: 0,
        }
    }

    /// An address is told, perhaps again. Cost: some nanoseconds.
    pub(super) fn tell(&mut self, (partition, index, byte): Address) {
        self.told += 1;
        let hash = mix(mix(index.0 ^ u64::from(partition.0).rotate_right(16)) ^ u64::from(byte));
        let bits = self.registers.len().trailing_zeros();
        let at = (hash >> (64 - bits)) as usize;
        let zeros = ((hash << bits) | 1).leading_zeros() as u8;
        self.registers[at] = self.registers[at].max(zeros + 1);
    }

    /// How many different ones were told, about; 0 only when none was.
    pub(super) fn count(&self) -> u64 {
        let all = self.registers.len() as f64;
        let used = self.registers.iter().filter(|it| **it > 0);
        let (used, sum) = used.fold((0_u32, 0.0), |(used, sum), it| {
            (used + 1, sum + (-f64::from(*it)).exp2())
        });
        let empty = all * few((all - f64::from(used)) / all);
        let count = all * all / (2.0 * std::f64::consts::LN_2 * (sum + empty));
        (count.round() as u64).min(self.told)
    }
}

/// What registers that are empty add to the sum, where such a share of them is: without it few addresses would be counted as too many, and
/// with another formula for few of them the count would fall where the formulas meet (O. Ertl, New cardinality estimation algorithms
/// for HyperLogLog sketches, 2017: σ).
fn few(empty: f64) -> f64 {
    if empty >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut factor, mut sum) = (empty, 1.0, empty);
    loop {
        power *= power;
        let more = power * factor;
        // Of 2^16 registers one is used: after 20 steps nothing is left.
        if more < 1e-12 {
            return sum;
        }
        sum += more;
        factor *= 2.0;
    }
}

/// The finalizer of SplitMix64: all bits of the result depend on each bit of the number.
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use courser_contract::{LogIndex, PartitionId};

    use super::*;

    #[test]
    fn many_are_counted_about_and_each_once() {
        for (bits, error) in [(8, 0.2), (12, 0.05)] {
            let mut sketch = Sketch::new(bits);
            assert_eq!(sketch.count(), 0);
            let mut before = 0;
            for number in 0..300_000_u64 {
                let address = (
                    PartitionId(3),
                    LogIndex(number / 40),
                    (number % 40 * 96) as u32,
                );
                sketch.tell(address);
                if number % 7 == 0 {
                    sketch.tell(address);
                }
                if (number + 1).is_power_of_two() || number % 50_000 == 0 {
                    let (count, exact) = (sketch.count(), number + 1);
                    let off = (count as f64 - exact as f64).abs() / exact as f64;
                    assert!(off <= error, "{bits}: {count} of {exact}");
                    assert!(count >= before, "{bits}: never fewer");
                    before = count;
                }
            }
        }
    }

    #[test]
    fn a_few_are_counted_exactly() {
        let mut sketch = Sketch::new(8);
        for number in 0..5 {
            for _ in 0..1_600 {
                sketch.tell((PartitionId(1), LogIndex(number), 32));
            }
            assert_eq!(sketch.count(), number + 1);
        }
    }
}
