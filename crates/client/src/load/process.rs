//! What another process of this machine used: CPU time and memory, from `/proc`.

use std::fs;
use std::io;

/// Processor time and memory of one process or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time of all threads since their start, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
}

/// Usage of the processes with these ids together.
///
/// # Errors
/// When a process is gone or `/proc` is missing.
pub fn usage(pids: &[u32]) -> io::Result<Usage> {
    pids.iter().try_fold(Usage::default(), |sum, &pid| {
        let one = usage_of(pid)?;
        Ok(Usage {
            cpu_seconds: sum.cpu_seconds + one.cpu_seconds,
            resident_bytes: sum.resident_bytes + one.resident_bytes,
        })
    })
}

/// CPU time of this process itself, in seconds.
///
/// # Errors
/// When `/proc` is missing.
pub fn own_cpu_seconds() -> io::Result<f64> {
    usage_of(std::process::id()).map(|usage| usage.cpu_seconds)
}

fn usage_of(pid: u32) -> io::Result<Usage> {
    let resident = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages: u64 = field(&resident, 1)?;
    Ok(Usage {
        cpu_seconds: cpu_seconds(pid)?,
        resident_bytes: pages * rustix::param::page_size() as u64,
    })
}

/// The scheduler's count of nanoseconds, summed over threads; where the kernel has none, the tick count of `stat`.
fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: u64 = field::<u64>(after_name, 11)? + field::<u64>(after_name, 12)?;
    let by_ticks = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let Ok(schedstat) = fs::read_to_string(thread?.path().join("schedstat")) else {
            return Ok(by_ticks);
        };
        nanoseconds += field::<u64>(&schedstat, 0)?;
    }
    // Threads that ended are missing in the finer count, never in the coarser one.
    let fine = nanoseconds as f64 / 1e9;
    Ok(if by_ticks > fine + 0.1 {
        by_ticks
    } else {
        fine
    })
}

fn field<T: std::str::FromStr>(line: &str, at: usize) -> io::Result<T> {
    line.split_whitespace()
        .nth(at)
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unknown form of a /proc file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_own_usage() {
        let before = own_cpu_seconds().expect("/proc");
        let mut sum = 0u64;
        while own_cpu_seconds().expect("/proc") < before + 0.05 {
            sum = (0..100_000).fold(sum, |sum, k| std::hint::black_box(sum.wrapping_add(k)));
        }
        let usage = usage(&[std::process::id()]).expect("/proc");
        assert!(usage.resident_bytes > 100_000, "{usage:?}");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(usage(&[u32::MAX]).is_err());
    }
}
