use super::*;

const PARTITION: PartitionId = PartitionId(1);

/// A scan that may ask one partition.
fn begin(scans: &mut OpenScans, uid: SessionUid, number: u64) {
    scans.open(uid, number, "t".into());
    wait(scans, uid, number);
}

fn wait(scans: &mut OpenScans, uid: SessionUid, number: u64) {
    let open = scans.get_mut(uid, number).expect("it was opened");
    open.waiting.push(PARTITION);
}

/// As many as may ask at once ask, and one more session than that waits for them.
fn crowd(scans: &mut OpenScans) -> SessionUid {
    for uid in 0..=ABSENT_MAX as u64 {
        begin(scans, SessionUid(uid), 1);
        let asked = scans.ask(SessionUid(uid), Asker::Absent, uid);
        assert_eq!(asked.is_some(), uid < ABSENT_MAX as u64);
    }
    SessionUid(ABSENT_MAX as u64)
}

#[test]
fn who_is_away_waits_for_the_answers_of_others_m34() {
    let mut scans = OpenScans::default();
    let last = crowd(&mut scans);
    assert_eq!(scans.next_in_line(), None);
    assert!(scans.answered(SessionUid(3), 1, 3).is_some());
    assert!(scans.answered(SessionUid(3), 1, 3).is_none(), "once");
    assert_eq!(scans.next_in_line(), Some(last));
    assert_eq!(scans.next_in_line(), None, "it stands there once");
    assert!(scans.ask(last, Asker::Absent, 100).is_some());
    wait(&mut scans, SessionUid(3), 1);
    assert_eq!(scans.ask(SessionUid(3), Asker::Absent, 101), None);
}

#[test]
fn the_question_of_a_scan_that_is_gone_makes_room_for_another_m34() {
    let mut scans = OpenScans::default();
    let last = crowd(&mut scans);
    scans.remove(SessionUid(0), 1);
    assert_eq!(scans.next_in_line(), Some(last));
    assert!(scans.ask(last, Asker::Absent, 100).is_some());
    assert_eq!(scans.forget(SessionUid(1), |_| true), 1);
    begin(&mut scans, SessionUid(1), 2);
    assert!(scans.ask(SessionUid(1), Asker::Absent, 101).is_some());
}

#[test]
fn who_comes_back_or_ends_stands_in_line_no_more_m34() {
    let mut scans = OpenScans::default();
    let last = crowd(&mut scans);
    scans.has_front(last);
    assert!(scans.ask(last, Asker::Present, 100).is_some());
    assert!(scans.answered(SessionUid(0), 1, 0).is_some());
    assert_eq!(scans.next_in_line(), None);
    let mut scans = OpenScans::default();
    let last = crowd(&mut scans);
    scans.forget(last, |_| true);
    assert!(scans.answered(SessionUid(0), 1, 0).is_some());
    assert_eq!(scans.next_in_line(), None);
}

#[test]
fn what_has_found_something_asks_again_with_a_front_only_m34() {
    let mut scans = OpenScans::default();
    let uid = SessionUid(1);
    begin(&mut scans, uid, 1);
    begin(&mut scans, uid, 2);
    let ask = |scans: &mut OpenScans, asker, question| {
        let asked = scans.ask(uid, asker, question);
        asked.map(|(number, _)| number)
    };
    assert_eq!(ask(&mut scans, Asker::Absent, 1), Some(1));
    assert_eq!(ask(&mut scans, Asker::Absent, 2), None, "one at a time");
    let (open, asker) = scans.answered(uid, 1, 1).expect("it has asked");
    assert_eq!(asker, Asker::Absent);
    open.waiting.push(PARTITION);
    open.has_found = true;
    assert_eq!(ask(&mut scans, Asker::Absent, 3), Some(2));
    assert!(scans.answered(uid, 2, 3).is_some());
    assert_eq!(ask(&mut scans, Asker::Absent, 4), None);
    scans.has_front(uid);
    assert_eq!(ask(&mut scans, Asker::Present, 5), Some(1));
    assert!(scans.answered(uid, 1, 5).is_some());
    wait(&mut scans, uid, 1);
    assert_eq!(
        ask(&mut scans, Asker::Absent, 6),
        Some(1),
        "it was there in between"
    );
}

fn says(payload: &[u8]) -> RecordView<'_> {
    RecordView {
        topic: "t",
        properties: &[],
        payload,
        qos: courser_contract::QoS::AtLeastOnce,
        retain: true,
        expires_at: None,
        publisher: None,
        author: None,
    }
}

/// A session with a scan that has asked, and got a live message before the answer.
fn unclear() -> (OpenScans, SessionUid) {
    let mut scans = OpenScans::default();
    let uid = SessionUid(1);
    scans.open(uid, 1, "t".into());
    scans.begin(uid, 1, vec![PARTITION]);
    assert!(scans.ask(uid, Asker::Present, 1).is_some());
    scans.note_live(&says(b"live"), [uid].into_iter());
    (scans, uid)
}

#[test]
fn m34_a_find_beside_a_live_message_is_unclear_unless_it_is_the_same() {
    let (scans, uid) = unclear();
    assert_eq!(scans.finding(uid, 1, &says(b"live")), Finding::Overtaken);
    assert_eq!(scans.finding(uid, 1, &says(b"found")), Finding::Unclear);
    let other = RecordView {
        topic: "u",
        ..says(b"found")
    };
    assert_eq!(scans.finding(uid, 1, &other), Finding::Wanted);
    // One with properties of its own is another one.
    let other = RecordView {
        properties: b"p",
        ..says(b"live")
    };
    assert_eq!(scans.finding(uid, 1, &other), Finding::Unclear);
    let long = vec![0; COMPARED_BYTES_MAX + 1];
    let mut scans = scans;
    scans.note_live(&says(&long), [uid].into_iter());
    assert_eq!(scans.finding(uid, 1, &says(&long)), Finding::Unclear);
}

#[test]
fn m34_between_two_fences_it_becomes_clear_what_is_newer() {
    let (mut scans, uid) = unclear();
    let found = says(b"found");
    assert!(scans.answered(uid, 1, 1).is_some());
    wait(&mut scans, uid, 1);
    let [first, second, stale] = [7, 8, 9].map(IndexToken);
    scans.clear_up(uid, first);
    assert_eq!(scans.ask(uid, Asker::Present, 2), None, "not before");
    scans.note_live(&says(b"between"), [uid].into_iter());
    assert_eq!(scans.order_fence_passed(uid, stale, second), None);
    assert_eq!(scans.order_fence_passed(uid, first, second), Some(second));
    // A scan that begins meanwhile has nothing of this.
    scans.open(uid, 2, "t".into());
    scans.begin(uid, 2, vec![PARTITION]);
    assert_eq!(scans.ask(uid, Asker::Present, 3), None, "not before");
    assert_eq!(scans.order_fence_passed(uid, second, stale), None);
    assert_eq!(scans.ask(uid, Asker::Present, 4), Some((1, PARTITION)));
    assert_eq!(scans.finding(uid, 1, &found), Finding::Wanted);
    assert_eq!(scans.finding(uid, 1, &says(b"between")), Finding::Overtaken);
    scans.note_live(&says(b"behind"), [uid].into_iter());
    assert_eq!(scans.finding(uid, 1, &found), Finding::Overtaken);
    assert_eq!(scans.finding(uid, 2, &found), Finding::Unclear);
}
