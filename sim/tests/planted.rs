//! Each bug that can be planted is found, by a rule that it breaks: in the simulator's shell, in its writer, under the log, in
//! the log and in the engine.
//!
//! Not planted: last words of a front that do not wait for its appends (M25). The seeds do not show that bug by a rule of its
//! own: the old append must lose a race over three links against a whole connect, and the repeat of a publish hides it.

use courser_sim::{Bug, Plan, run_plan};

/// Seeds that a search may take; most bugs need fewer than ten, the rarest about fifty.
const SEEDS: u64 = 150;

/// Searches for a seed that keeps the rules without the bug and breaks one of `rules` with it.
fn is_found(bug: Bug, rules: &[&str]) {
    search(bug, rules, Plan::new);
}

/// The same from a recorded seed on: bugs of groups need members that leave at a bad moment, which hundreds of seeds do not have.
fn is_found_from(bug: Bug, seed: u64, rules: &[&str]) {
    search(bug, rules, |offset| Plan::new(seed - 1 + offset));
}

/// The same with nodes that have a disk, around a recorded seed.
fn is_found_on_disk(bug: Bug, seed: u64, rules: &[&str]) {
    search(bug, rules, |offset| {
        let mut plan = Plan::on_disk(seed - 1 + offset);
        plan.groups = false;
        plan
    });
}

fn search(bug: Bug, rules: &[&str], plan: impl Fn(u64) -> Plan) {
    let violation = |seed, bug| run_plan(plan(seed).with_bug(bug)).violation;
    let mut others = Vec::new();
    for seed in 1..=SEEDS {
        let Some(found) = violation(seed, Some(bug)) else {
            continue;
        };
        if violation(seed, None).is_some() {
            continue;
        }
        // On a disk the text begins with the partition.
        let text = found
            .split_once(": ")
            .filter(|(place, _)| place.starts_with("partition "));
        let text = text.map_or(found.as_str(), |(_, text)| text);
        if rules.iter().any(|rule| text.starts_with(rule)) {
            return;
        }
        others.push(format!("seed {seed}: {found}"));
    }
    panic!(
        "{bug} is not found by {rules:?}; others:\n{}",
        others.join("\n")
    );
}

#[test]
fn appends_that_are_not_sent_again() {
    is_found(Bug::ForgetResend, &["I13:"]);
}

#[test]
fn appends_that_are_sent_again_under_new_numbers() {
    is_found(Bug::ResendRenumbered, &["I4:", "I13:"]);
}

#[test]
fn entries_that_are_applied_before_their_commit() {
    is_found(Bug::ApplyBeforeCommit, &["M9/M42:"]);
}

#[test]
fn publishes_that_are_answered_before_their_commit() {
    is_found(Bug::SettleBeforeCommit, &["I1:"]);
}

#[test]
fn two_fronts_of_one_client_id() {
    is_found(Bug::AttachBeforeDetach, &["I8:"]);
}

#[test]
fn an_index_that_is_confirmed_too_early() {
    is_found(Bug::ConfirmIndexEarly, &["I1:", "M33:"]);
}

#[test]
fn a_link_that_loses_the_order() {
    is_found(Bug::ReorderLink, &["I3:", "M10:"]);
}

#[test]
fn a_link_that_loses_batches() {
    is_found(Bug::LoseBatch, &["I1:", "I13:"]);
}

#[test]
fn a_link_that_changes_payloads() {
    is_found(Bug::DamagePayload, &["I5:"]);
}

#[test]
fn deliveries_that_come_twice() {
    is_found(Bug::DeliverTwice, &["I4:", "M30:"]);
}

#[test]
fn fences_that_do_not_wait() {
    // Groups make the window rare: without them a seed in a few thousand is found, around this one.
    search(Bug::SkipFence, &["M33:", "M34:"], |offset| {
        let mut plan = Plan::new(40 + offset);
        plan.groups = false;
        plan
    });
}

#[test]
fn timers_that_do_not_fire() {
    is_found(Bug::NoTimers, &["M26:", "M33:", "I13:"]);
}

#[test]
fn an_entry_that_is_lost_at_a_restart() {
    is_found(Bug::LoseEntry, &["I1:"]);
}

#[test]
fn pubrel_that_leaves_before_the_commit() {
    is_found(Bug::EarlyPubrel, &["I4:", "M30:"]);
}

#[test]
fn holds_of_qos_2_that_are_lost() {
    is_found(Bug::ForgetHold, &["I4:"]);
}

#[test]
fn an_outbox_that_forwards_twice() {
    is_found(Bug::ForwardTwice, &["I4:", "I1:", "I13:", "M33:"]);
}

#[test]
fn dup_that_is_wrong() {
    is_found(Bug::WrongDup, &["v5 [MQTT-3.3.1-1]:", "M30:"]);
}

#[test]
fn a_start_counter_that_is_not_raised() {
    is_found(Bug::SameStart, &["I1:", "I13:", "M33:"]);
}

#[test]
fn records_that_are_acknowledged_before_their_sync() {
    is_found_on_disk(Bug::AckBeforeSync, 3, &["I1:", "I6:"]);
}

#[test]
fn a_commit_index_beyond_what_is_synced() {
    is_found_on_disk(Bug::CommitBeyondSynced, 19, &["I1:", "I6:"]);
}

#[test]
fn two_records_that_are_swapped() {
    is_found_on_disk(Bug::SwapRecords, 2, &["I1:", "I7:"]);
}

#[test]
fn a_folder_that_is_never_synced() {
    is_found_on_disk(Bug::NoDirectorySync, 1, &["I1:", "I6:", "I7:"]);
}

#[test]
fn a_segment_that_is_left_without_a_sync() {
    is_found_on_disk(Bug::OldSegmentNotSynced, 1, &["I1:", "I7:"]);
}

#[test]
fn a_failed_sync_that_counts_as_done() {
    is_found_on_disk(Bug::SyncErrorIgnored, 15, &["I1:", "I6:", "I7:"]);
}

#[test]
fn a_manifest_that_comes_before_its_pieces() {
    is_found_on_disk(Bug::PiecesNotSynced, 2, &["I7:"]);
}

#[test]
fn pieces_of_a_checkpoint_at_different_indexes() {
    is_found_on_disk(Bug::LatePieces, 4, &["M42:", "I7:"]);
}

#[test]
fn a_vote_that_is_not_written() {
    is_found_on_disk(Bug::ForgetVote, 1, &["I6:"]);
}

#[test]
fn rot_that_is_cut() {
    is_found_on_disk(Bug::CutRot, 21, &["I1:"]);
}

#[test]
fn a_recycled_segment_that_is_read_as_new() {
    is_found_on_disk(Bug::ReadRecycled, 1, &["I1:", "I5:", "I6:", "I7:", "M42:"]);
}

#[test]
fn hard_states_that_are_lost_with_their_segment() {
    is_found_on_disk(Bug::EmptyHeads, 2, &["I6:"]);
}

#[test]
fn forwards_that_are_forgotten_at_a_restart() {
    is_found_on_disk(Bug::ForgetInbox, 3, &["M9/M42:", "I4:"]);
}

#[test]
fn a_segment_that_is_used_again_too_early() {
    is_found_on_disk(Bug::FreeLiveSegments, 2, &["I1:", "I7:"]);
}

#[test]
fn an_end_of_the_log_that_is_read_and_not_durable() {
    is_found_on_disk(Bug::TrustTheCache, 85, &["I1:", "I6:", "I7:"]);
}

#[test]
fn groups_that_are_not_told_of_the_connections_of_who_left() {
    is_found_from(Bug::ForgetLeavers, 349, &["I13:", "M30:", "M35:"]);
}

#[test]
fn ids_of_groups_that_are_free_too_early() {
    is_found_from(Bug::FreeIdsEarly, 297, &["I13:", "M30:", "M35:"]);
}

#[test]
fn both_parts_of_a_group_that_take_a_message() {
    search(Bug::BothParts, &["I4:", "M35:"], Plan::one_group);
}

#[test]
fn a_volatile_part_that_closes_before_its_fence() {
    search(Bug::CutWithoutFence, &["M35:"], Plan::one_group);
}

#[test]
fn a_durable_part_that_gives_out_before_it_has_all() {
    search(Bug::HeirBeforePassed, &["M36:"], Plan::one_group);
}
