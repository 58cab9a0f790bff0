//! Clocks and medians.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread in nanoseconds.
pub(crate) fn cpu_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// CPU nanoseconds of one of `count` calls.
pub(crate) fn cpu_each(count: u64, mut call: impl FnMut()) -> f64 {
    let start = cpu_ns();
    (0..count).for_each(|_| call());
    (cpu_ns() - start) / count as f64
}

/// Mean CPU nanoseconds of a call over about `total_ns`, after at least a sixteenth of that to warm up. The mean and not
/// the least of some: what comes up only now and then is part of what is measured.
pub(crate) fn mean_cpu_each(total_ns: f64, mut call: impl FnMut()) -> f64 {
    let mut count = 1;
    let mut each = cpu_each(count, &mut call);
    while each * count as f64 * 16.0 < total_ns {
        count *= 2;
        each = cpu_each(count, &mut call);
    }
    cpu_each((total_ns / each).ceil() as u64, call)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
