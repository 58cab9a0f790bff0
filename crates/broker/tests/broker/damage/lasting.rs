//! What was accepted stays accepted, and what was put away can be put back: over several starts, with checkpoints and segments used again between.

use super::*;

/// Entries behind the loss came back, with a term below that of the checkpoint, and no start was possible any more.
#[test]
fn m44_an_accepted_loss_lasts_when_what_came_later_is_below_a_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    fill(folder);
    run(folder, |broker| {
        for number in 0..20 {
            let payload = format!("more-{number}-for-c");
            assert_eq!(send(broker, "to/c", payload.as_bytes()), 0);
        }
    });
    rot(folder, "message-1-for-c");
    repair(folder, Verb::AcceptLoss(None)).expect("it is damaged");
    run(folder, |broker| assert_eq!(connack(broker, "c"), 0));
    for _ in 0..3 {
        fill_log(folder);
        let examined = examine(folder).expect("it can be examined");
        assert_eq!(examined.findings, []);
        let state = run(folder, |broker| {
            assert_eq!(split(broker).1, [""; 0], "everybody is let in");
            broker.state()
        });
        assert_eq!(state, NodeState::default());
    }
    run(folder, |broker| {
        assert_eq!(waiting(broker, "c", 1), all_of("c")[..1]);
        assert_eq!(waiting(broker, "d", 3), all_of("d"));
    });
}

/// `repair` without an order, and each start, removed the checkpoint.
#[test]
fn i7_a_manifest_that_is_put_back_finds_its_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    fill(folder);
    fill_log(folder);
    // Those of others are replaced by later ones meanwhile.
    let (of_partitions, _) = checkpoints(folder);
    let checkpoint = of_partitions.first().expect("there are some");
    let name = checkpoint.file_name().expect("it has a name");
    let name = name.to_string_lossy();
    let (partition, _) = name.split_once('-').expect("partition and index");
    let manifest = checkpoint.with_file_name(format!("{partition}.manifest"));
    let away = folder.join("away");
    fs::rename(&manifest, &away).expect("moved");
    let examined = examine(folder).expect("it can be examined");
    assert!(matches!(examined.findings[..], [Finding::Aside(_)]));
    assert!(checkpoint.exists(), "{name}");
    let state = run(folder, |broker| broker.state());
    assert_eq!(state.set_aside.len(), 1);
    assert!(checkpoint.exists(), "{name}");
    fs::rename(&away, &manifest).expect("moved back");
    let examined = examine(folder).expect("it can be examined");
    assert_eq!(examined.findings, []);
    run(folder, |broker| {
        for client in CLIENTS {
            assert_eq!(waiting(broker, client, 3), all_of(client));
        }
    });
}
