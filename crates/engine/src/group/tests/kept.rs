//! QoS 1 of sessions that have left a group without members.

use super::*;

/// Nobody else would get it, and the group would end with it.
#[test]
fn i1_qos_1_of_the_last_member_that_unsubscribes_stays_with_its_session_m35() {
    // v3 [MQTT-3.10.4-3], v5 [MQTT-3.10.4-3], v3 [MQTT-4.4.0-1], v5 [MQTT-4.4.0-1]
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 2);
    bench.push(3, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [0, 0]);
    bench.leave(0, Leave::Unsubscribed);
    let kept = [0, 1].map(|seq| Fact::Assigned {
        seq: Seq(seq),
        member: home(0),
        packet_id: None,
    });
    assert_eq!(bench.commit(), kept);
    assert!(!bench.group.is_over(), "it is owed two");
    for is_new_leader in [false, true] {
        match is_new_leader {
            true => bench.new_leader(),
            false => bench.detach(0),
        }
        assert_eq!(bench.commit(), []);
        assert_eq!(bench.dispatch.under_way(), 2, "{is_new_leader}");
        assert_eq!(bench.dispatch.take_news().cleared, []);
        bench.attach(0, 2);
        assert_eq!(bench.send(), [], "new ones are not for it");
    }
    bench.outcome(0, 0..=1, OutcomeKind::Done);
    bench.commit();
    assert!(bench.group.is_over());
    assert_eq!(bench.dispatch.take_news().cleared, [home(0)]);
}

#[test]
fn i1_qos_1_of_one_that_left_before_the_last_member_stays_as_well_m35() {
    for why in [Leave::Unsubscribed, Leave::SessionEnded] {
        let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 2, 1);
        bench.push(1, QoS::AtLeastOnce);
        assert_eq!(bench.receivers(), [0]);
        bench.leave(0, Leave::Unsubscribed);
        assert_eq!(bench.commit(), [], "the other one would get it");
        bench.leave(1, why);
        assert_eq!(bench.commit().len(), 1);
        bench.detach(0);
        bench.commit();
        assert_eq!(
            (bench.group.is_over(), bench.dispatch.under_way()),
            (false, 1)
        );
    }
}

#[test]
fn m35_qos_1_that_was_kept_goes_to_another_member_that_has_joined() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 1);
    bench.push(1, QoS::AtLeastOnce);
    bench.send();
    bench.leave(0, Leave::Unsubscribed);
    bench.commit();
    bench.join(1, member(QoS::AtLeastOnce, 0));
    bench.attach(1, 1);
    assert_eq!(bench.send(), [], "the first one has it");
    bench.detach(0);
    bench.commit();
    assert_eq!(bench.send(), [(0, 1, 2)]);
    assert_eq!(bench.group.all_owed().count(), 0);
}

#[test]
fn m35_qos_1_that_was_kept_ends_with_its_session() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 1);
    bench.push(1, QoS::AtLeastOnce);
    bench.send();
    bench.leave(0, Leave::Unsubscribed);
    bench.commit();
    bench.detach(0);
    bench.leave(0, Leave::SessionEnded);
    assert_eq!(
        (bench.group.is_over(), bench.dispatch.under_way()),
        (true, 0)
    );
    assert_eq!(bench.done, [Seq(0)]);
}

#[test]
fn m35_qos_1_that_was_kept_and_was_not_sent_is_not_owed() {
    for kind in [OutcomeKind::Returned, OutcomeKind::TooLarge] {
        let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 1);
        bench.push(1, QoS::AtLeastOnce);
        bench.send();
        bench.leave(0, Leave::Unsubscribed);
        bench.commit();
        bench.outcome(0, 0..=0, kind);
        bench.commit();
        assert_eq!(
            (bench.group.is_over(), bench.dispatch.under_way()),
            (true, 0)
        );
    }
}

/// Its end was proposed before it was written down that it has the message.
#[test]
fn m35_qos_1_of_a_session_that_ends_right_behind_its_leave_is_owed_to_nobody() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 1);
    bench.push(1, QoS::AtLeastOnce);
    bench.send();
    bench.leave(0, Leave::Unsubscribed);
    bench.leave(0, Leave::SessionEnded);
    bench.commit();
    assert_eq!(
        (bench.group.is_over(), bench.dispatch.under_way()),
        (true, 0)
    );
}
