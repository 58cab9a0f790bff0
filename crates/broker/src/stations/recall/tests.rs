//! The record reader on a disk in memory.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use courser_contract::{LogIndex, Need, PartitionId, Question, ShardId, StreamWants, Term, Want};
use courser_log::testing::MemDisk;
use courser_log::{Log, LogConfig, NodeIdentity, Push, Record, StartId};

use super::{QuestionDoor, RecallDoor, RecallStation, Told};
use crate::rings::Doze;
use crate::stations::disk::{Counter, DiskState};
use crate::stations::requests::{Request, RequestDoor};

const PATIENCE: Duration = Duration::from_secs(10);
const RECORD: [u8; 8] = [8, 0, 0, 0, 1, 2, 3, 4];

fn log_of(disk: &MemDisk) -> Log<MemDisk> {
    let config = LogConfig::new(NodeIdentity(7), 1 << 20).expect("a size that logs have");
    let start = StartId {
        counter: 1,
        word: 9,
    };
    let none = std::collections::BTreeMap::new();
    let (mut log, _) = Log::open(disk.clone(), config, start, &none).expect("the disk is right");
    let mut batch = log.new_batch();
    let entry = Record::Entry {
        partition: PartitionId(3),
        term: Term(1),
        index: LogIndex(1),
        data: Bytes::from_static(&RECORD),
    };
    assert_eq!(batch.push(&entry), Push::Taken);
    log.write(&mut batch).expect("written");
    log.sync().expect("synced");
    log
}

fn question(index: u64) -> Question {
    let want = Want {
        index: LogIndex(index),
        byte: 0,
        len: 8,
    };
    Question {
        partition: PartitionId(3),
        streams: vec![StreamWants {
            stream: index,
            wants: vec![want],
        }],
        room: 100,
    }
}

#[test]
fn m17_a_question_is_answered_to_the_shard_that_asks() {
    let disk = MemDisk::new();
    let log = log_of(&disk);
    let (requests, asked) = RequestDoor::new(&Arc::new(Doze::default()));
    let writer = thread::spawn(move || {
        while let Ok(request) = asked.recv() {
            match request {
                Request::Places(answer) => answer.send(log.places()).expect("it waits"),
                other => panic!("nobody asks for this: {other:?}"),
            }
        }
    });
    let state = Arc::new(DiskState::new(2));
    let (doors, answers): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (recalled, answers) = mpsc::channel();
            let doze = Arc::default();
            (RecallDoor { recalled, doze }, answers)
        })
        .unzip();
    let (told, taken) = mpsc::channel();
    let station = RecallStation::new(disk, taken, requests, doors, Arc::clone(&state));
    let station = thread::spawn(move || station.run());
    let door = QuestionDoor::new(ShardId(1), told.clone());

    door.ask(question(1));
    let answer = answers[1].recv_timeout(PATIENCE).expect("it is answered");
    assert_eq!(answer.partition, PartitionId(3));
    assert_eq!((&answer.bytes[..], answer.records.len()), (&RECORD[..], 1));

    door.ask(question(2));
    let answer = answers[1].recv_timeout(PATIENCE).expect("it is answered");
    let need = Need {
        index: LogIndex(2),
        byte: 0,
    };
    assert_eq!(answer.lost, [need], "the log never had it");

    told.send(Told::End).expect("it runs");
    station.join().expect("it does not panic");
    writer.join().expect("nor did this");
    assert!(answers[0].try_recv().is_err());
    let counted = |counter| state.count(counter);
    assert_eq!(counted(Counter::RecallQuestions), 2);
    assert_eq!(counted(Counter::RecalledRecords), 1);
    assert_eq!(counted(Counter::RecalledBytes), 8);
    assert_eq!(
        counted(Counter::RecalledLost),
        0,
        "its shard knows whether somebody needs it"
    );
    assert!(counted(Counter::RecallReadBytes) > 0 && counted(Counter::RecallRounds) > 0);
}
