use std::io::IoSlice;

use super::MemDisk;
use crate::disk::{Disk, DiskFile};

/// One block was written, synced and written again, another one after it: each of the four outcomes is there, the older content of the first
/// one beside the newer one of the second, too.
#[test]
fn a_loss_of_power_may_bring_back_a_block_and_leave_later_writes() {
    let disk = MemDisk::new();
    let write = |byte: u8, at: u64| {
        let file = disk.open("f").expect("it is there");
        file.write_at(&[IoSlice::new(&[byte; 512])], at)
            .expect("written");
    };
    disk.create("f").expect("made");
    disk.sync_dir().expect("synced");
    write(1, 0);
    disk.open("f")
        .and_then(|file| file.sync())
        .expect("it is synced");
    write(2, 0);
    write(3, 512);
    let mut seen = [0; 4];
    for seed in 0..100 {
        let left = disk.fork().power_loss(seed).bytes("f").expect("it stays");
        let newer = usize::from(left[0] == 2);
        let later = usize::from(left.get(512) == Some(&3));
        assert!(
            left[0] == 1 || newer == 1,
            "what was synced is there, or newer"
        );
        seen[2 * newer + later] += 1;
    }
    assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
}

/// A disk takes another sector for one that it could not read.
#[test]
fn what_is_written_can_be_read_again() {
    let disk = MemDisk::new();
    let file = disk.create("f").expect("made");
    let write = |bytes: usize, at: u64| {
        let written = file.write_at(&[IoSlice::new(&vec![1; bytes])], at);
        written.expect("written");
    };
    let reads = |from, bytes| file.read_at(&mut vec![0; bytes], from).is_ok();
    write(300, 0);
    disk.make_unreadable("f", 100, 199);
    assert!(reads(0, 100) && !reads(0, 101) && !reads(199, 1) && reads(200, 100));
    write(20, 140);
    assert!(reads(140, 20) && !reads(139, 1) && !reads(160, 1));
    write(300, 0);
    assert!(reads(0, 300));
}
