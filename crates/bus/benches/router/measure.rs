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

/// Least of several measurements of about `total_ns` each: what disturbs a round only adds to it.
pub(crate) fn best_cpu_each(total_ns: f64, mut call: impl FnMut()) -> f64 {
    let mut count = 1;
    let mut each = cpu_each(count, &mut call);
    while each * count as f64 * 4.0 < total_ns {
        count *= 4;
        each = cpu_each(count, &mut call);
    }
    (0..5)
        .map(|_| cpu_each(count, &mut call))
        .fold(each, f64::min)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
