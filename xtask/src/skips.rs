//! What may be left out where CI runs, and why: what a machine or a container may lack and `.ci/install` cannot bring. Whatever else does not
//! run there fails the run: a test that nobody runs proves nothing.

/// Parts of the reasons.
const EXCUSED: &[&str] = &[
    // By hand, or with another purpose than to find out whether something works.
    "takes seconds; by hand",
    "writes a new sample: see the module",
    // A container without privileges: no loop devices, control groups, networks of its own, looks at other processes.
    "no small file system: ",
    "no control group can be made here: ",
    "no network of its own can be made here",
    "strace may not look at other processes: ",
    "taken by something else on this machine",
    // Kernel and network of the machine.
    "this kernel has no Landlock",
    "this machine has no IPv6",
    // Not every distribution has the package.
    "there is no promtool",
    "there is no prometheus beside promtool",
    "valgrind cannot be installed",
    "valgrind does not run",
    // Another processor or other tools than those of the record.
    "there is no bench/instructions/",
    "the record was made with",
    // Without a network but to the registries.
    "advisories, whose database is not here",
    "there is no nightly toolchain",
    // Elsewhere than in CI: brokers other than ours.
    "the broker's window is as large as the packet ids",
];

/// Whether what did not run may be left out.
pub(crate) fn is_excused(named: &str) -> bool {
    EXCUSED.iter().any(|reason| named.contains(reason))
}

#[cfg(test)]
mod tests {
    use super::is_excused;

    #[test]
    fn what_a_container_lacks_is_excused_and_nothing_else() {
        for named in [
            "e2e: [5] test_disk.py:144: no small file system: mount: /x/mount: permission denied.",
            "e2e: [2] test_memory_tiny.py:26: no control group can be made here: /sys/fs/cgroup: Read-only file system",
            "e2e: [1] test_public_bind.py:26: no network of its own can be made here: unshare: unshare failed: Operation not permitted",
            "e2e: [1] test_sweep_killed.py:45: strace may not look at other processes: strace: attach: Operation not permitted",
            "e2e: [1] test_confined.py:39: this kernel has no Landlock",
            "e2e: [1] test_first_five_minutes.py:39: port 1883 is taken by something else on this machine",
            "e2e: [1] test_start_page.py:58: ports [1884] are taken by something else on this machine",
            "unit: retained::bench::walk: takes seconds; by hand",
            "deny: advisories, whose database is not here",
            "fuzz: there is no nightly toolchain; see the step corpus for the kept inputs",
            "instructions: there is no bench/instructions/some-processor.toml",
            "instructions: valgrind is \"valgrind-3.24.0\", the record was made with \"valgrind-3.19.0\"",
        ] {
            assert!(is_excused(named), "{named}");
        }
        for named in [
            "deny: cargo-deny 0.20.2 cannot be installed here",
            "e2e: [1] test_disk.py:34: strace is not installed",
            "e2e: [1] test_qos.py:3: needs the courser binary",
            "e2e: [1] test_new.py:3: flaky",
            "bus-c: include/courser_router.h: cbindgen is not installed",
            "unit: node::tests::order",
        ] {
            assert!(!is_excused(named), "{named}");
        }
    }
}
