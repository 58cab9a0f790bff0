//! The kept inputs of the fuzz target of manifests of backups, orders and the file `node` (`fuzz/corpus/small_files`), and each byte of these
//! files changed behind a checksum that is right.

#[allow(
    unreachable_pub,
    reason = "the fuzz targets, in another crate, use them too"
)]
mod fuzzed;
#[allow(unreachable_pub, reason = "the same file serves other crates")]
#[path = "../../../fuzz/src/kept.rs"]
mod kept;

#[test]
fn kept_inputs() {
    kept::each("small_files", fuzzed::small_files);
}

#[test]
fn each_byte_changed() {
    for which in 0..3 {
        for at in 0..1_000_u16 {
            let [high, low] = at.to_be_bytes();
            for flip in [0x01, 0x10, 0x20, 0x80] {
                fuzzed::small_files(&[which, 0, high, low, flip]);
            }
        }
    }
}

/// Any lines that begin as theirs do.
#[test]
fn others_lines() {
    for line in [
        "missing",
        "missing 1",
        "missing 1 2 3",
        "missing 1 2 3 4 5",
        "missing 1 2 ",
        "doubt 99999999999 1",
        "skip 1 18446744073709551616",
        "release 1 ",
        "release  1",
        "release",
        "",
    ] {
        for which in 0..2_u8 {
            let head = ["courser backup 1\n", "courser repair 1\n"][usize::from(which)];
            let mut input = vec![which, 1];
            input.extend_from_slice(format!("{head}{line}\n").as_bytes());
            fuzzed::small_files(&input);
        }
    }
}
