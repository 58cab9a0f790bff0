//! A disk that says it has room and gives none, as with its inodes or a quota used up: what cannot be had is no room (M47).

use courser_contract::PartitionId;
use courser_log::testing::Withheld;
use courser_log::{Log, SpaceState, WriteError, testing::MemDisk};

use super::recorded::Recorded;
use crate::support;

const ALL: [Withheld; 2] = [Withheld::Files, Withheld::Bytes];

fn prepare_all(log: &mut Log<MemDisk>) {
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("no failed sync");
        log.check();
    }
}

/// A look at the disk and what follows from it.
fn look(log: &mut Log<MemDisk>) -> SpaceState {
    log.refresh_space();
    prepare_all(log);
    log.space().state
}

fn checkpoint(recorded: &mut Recorded) -> usize {
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let live = Default::default();
    recorded.log.set_checkpoint(PartitionId(1), at, live)
}

/// Publishers were let in as long as the disk said that it had room, and took the reserve from acknowledgements.
#[test]
fn m47_the_reserve_is_left_on_a_disk_that_gives_less_than_it_says() {
    for withheld in ALL {
        let mut recorded = Recorded::new();
        prepare_all(&mut recorded.log);
        recorded.disk.withhold(Some(withheld));
        while look(&mut recorded.log) == SpaceState::Enough {
            assert!(recorded.log.counts().rolls < 10, "{withheld:?}");
            recorded.write_synced(&[1]);
        }
        let space = recorded.log.space();
        let reserve = (support::SEGMENT, 0);
        assert_eq!((space.ready_bytes, space.free_bytes), reserve);
        let error = recorded.fill(|_| {});
        assert!(matches!(error, WriteError::NoSpace), "{withheld:?}");
        assert_eq!(look(&mut recorded.log), SpaceState::Low);
        recorded.disk.withhold(None);
        assert_eq!(look(&mut recorded.log), SpaceState::Enough);
        let again = recorded.log.write(&mut recorded.batch);
        again.expect("the same batch");
    }
}

/// All that is to be ready is, so nothing but the shortage itself asks the disk again.
#[test]
fn m47_a_disk_that_gives_again_is_seen_while_no_segment_is_wanted() {
    for withheld in ALL {
        let mut recorded = Recorded::new();
        while recorded.log.segments() < 3 {
            recorded.write_synced(&[1]);
        }
        assert_eq!(checkpoint(&mut recorded), 2);
        recorded.disk.withhold(Some(withheld));
        prepare_all(&mut recorded.log);
        let begun = recorded.log.counts().rolls;
        while recorded.log.counts().rolls == begun {
            recorded.write_synced(&[1]);
        }
        prepare_all(&mut recorded.log);
        assert_eq!(checkpoint(&mut recorded), 1);
        assert_eq!(look(&mut recorded.log), SpaceState::Low, "{withheld:?}");
        let ready = recorded.log.space().ready_bytes;
        assert_eq!(ready, 2 * support::SEGMENT, "as many as are to be ready");
        recorded.disk.withhold(None);
        assert_eq!(look(&mut recorded.log), SpaceState::Enough, "{withheld:?}");
    }
}
