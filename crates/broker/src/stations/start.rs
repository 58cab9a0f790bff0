//! The threads of the stations and everything between them and the shards.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use courser_contract::{Recalled, ShardId};
use courser_log::LogConfig;
use courser_memory::{Component, Scope};

use super::cleaner::{CleanerStation, Turn};
use super::disk::DiskState;
use super::medium::Medium;
use super::orders::{OrderReceiver, OrderSender, orders};
use super::reader::{CheckpointDone, CheckpointDoor, Job, Reader};
use super::recall::{QuestionDoor, RecallDoor, RecallStation, Told};
use super::recovery::{Handed, LogStation, ShardDoor};
use super::requests::{CopyDoor, RequestDoor};
use super::writer::WriterParts;
use crate::config::Config;
use crate::node::{DataFolder, FolderError};
use crate::rings::Doze;

/// What a shard has of the stations.
pub(crate) struct DiskPorts {
    pub(crate) orders: OrderSender,
    /// Its partitions, once the log is read.
    pub(crate) handed: mpsc::Receiver<Handed<Medium>>,
    /// To the reader.
    pub(crate) jobs: mpsc::Sender<Job<Medium>>,
    /// What became of checkpoints.
    pub(crate) checkpoints: mpsc::Receiver<CheckpointDone>,
    /// To the record reader.
    pub(crate) questions: QuestionDoor,
    /// What it has read.
    pub(crate) recalled: mpsc::Receiver<Recalled>,
    pub(crate) state: Arc<DiskState>,
}

/// Why the stations did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationsError {
    /// A folder.
    #[error("cannot open {}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What stands beside the log.
    #[error(transparent)]
    Given(#[from] FolderError),
    /// A setting that does not go with the log.
    #[error("log.segment_bytes: {0}")]
    Segment(#[from] courser_log::SegmentBytesError),
    /// A thread.
    #[error("cannot start a thread for the log")]
    Thread(#[source] io::Error),
}

/// The running stations.
#[derive(Debug)]
pub(crate) struct Stations {
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
    recall: JoinHandle<()>,
    told: mpsc::Sender<Told>,
    jobs: mpsc::Sender<Job<Medium>>,
    writer_doze: Arc<Doze>,
    requests: RequestDoor,
    state: Arc<DiskState>,
}

/// What every shard's ways to the stations begin or end at.
struct ShardEnds {
    writer: Arc<Doze>,
    jobs: mpsc::Sender<Job<Medium>>,
    told: mpsc::Sender<Told>,
    state: Arc<DiskState>,
}

/// The stations' ends of the ways to all shards, in the order of the shards.
#[derive(Default)]
struct StationWays {
    orders: Vec<OrderReceiver>,
    handing: Vec<ShardDoor<Medium>>,
    checkpoints: Vec<CheckpointDoor>,
    recalls: Vec<RecallDoor>,
}

impl ShardEnds {
    /// Connects the shards that `dozes` wake with the stations.
    fn connect(&self, dozes: &[Arc<Doze>]) -> (Vec<DiskPorts>, StationWays) {
        let (mut ports, mut ways) = (Vec::new(), StationWays::default());
        for (shard, doze) in (0..).map(ShardId).zip(dozes) {
            let doze = || Arc::clone(doze);
            let (orders, orders_taken) = orders(doze(), Arc::clone(&self.writer));
            let (handed, handed_taken) = mpsc::channel();
            let (done, checkpoints) = mpsc::channel();
            let (answers, recalled) = mpsc::channel();
            ways.orders.push(orders_taken);
            ways.handing.push(ShardDoor {
                handed,
                doze: doze(),
            });
            ways.checkpoints.push(CheckpointDoor { done, doze: doze() });
            ways.recalls.push(RecallDoor {
                recalled: answers,
                doze: doze(),
            });
            ports.push(DiskPorts {
                orders,
                handed: handed_taken,
                jobs: self.jobs.clone(),
                checkpoints,
                questions: QuestionDoor::new(shard, self.told.clone()),
                recalled,
                state: Arc::clone(&self.state),
            });
        }
        (ports, ways)
    }
}

impl Stations {
    /// Starts the writer and the readers on a folder, for the shards that `dozes` wake. The ports are for them, in order.
    ///
    /// # Errors
    /// See [`StationsError`]; nothing is left running.
    pub(crate) fn start(
        folder: &DataFolder,
        config: &Config,
        dozes: &[Arc<Doze>],
    ) -> Result<(Self, Vec<DiskPorts>), StationsError> {
        let state = Arc::new(DiskState::new(config.shards));
        let writer_doze = Arc::new(Doze::default());
        let (jobs, jobs_taken) = mpsc::channel();
        let (prepared, prepared_taken) = mpsc::channel();
        let (requests, requests_taken) = RequestDoor::new(&writer_doze);
        let (told, told_taken) = mpsc::channel();
        let ends = ShardEnds {
            writer: Arc::clone(&writer_doze),
            jobs: jobs.clone(),
            told: told.clone(),
            state: Arc::clone(&state),
        };
        let (ports, ways) = ends.connect(dozes);
        let (cleaner, cleaner_ports) =
            CleanerStation::new(jobs.clone(), Arc::clone(&writer_doze), Arc::clone(&state));
        let given = folder.given()?;
        folder.reserve_crash(&given.crashes)?;
        state.note_crashes_in(folder.crash());
        let recall = RecallStation::new(
            open(folder.log())?.reading_around(),
            told_taken,
            requests.clone(),
            ways.recalls,
            Arc::clone(&state),
        );
        let station = LogStation {
            log: open(folder.log())?,
            checkpoints: open(folder.checkpoints())?,
            config: log_config(config, folder)?,
            start: folder.start(),
            places: config.places(),
            given,
            doors: ways.handing,
            parts: WriterParts {
                shards: ways.orders,
                doze: Arc::clone(&writer_doze),
                state: Arc::clone(&state),
                jobs: jobs.clone(),
                prepared: prepared_taken,
                cleaner: Some(cleaner_ports),
                requests: requests_taken,
            },
        };
        let reader = Reader {
            jobs: jobs_taken,
            prepared,
            writer: Arc::clone(&writer_doze),
            requests: requests.clone(),
            checkpoints: None,
            shards: ways.checkpoints,
            state: Arc::clone(&state),
            open: HashMap::new(),
            cleaner,
            turn: Turn::default(),
            is_held_up: false,
        };
        let reader = spawn("log-reader", move || reader.run())?;
        let end = || {
            // They have senders of their own jobs, so they must be told.
            let _ = jobs.send(Job::End);
            let _ = told.send(Told::End);
        };
        let recall = spawn("record-reader", move || recall.run()).inspect_err(|_| end())?;
        let writer = spawn("log-writer", move || station.run()).inspect_err(|_| end())?;
        let stations = Self {
            writer,
            reader,
            recall,
            told,
            jobs,
            writer_doze,
            requests,
            state,
        };
        Ok((stations, ports))
    }

    /// What the stations know.
    pub(crate) const fn state(&self) -> &Arc<DiskState> {
        &self.state
    }

    /// For those who copy or check what is on the disk.
    pub(crate) fn copy_door(&self) -> CopyDoor<Medium> {
        CopyDoor {
            jobs: self.jobs.clone(),
            requests: self.requests.clone(),
            state: Arc::clone(&self.state),
        }
    }

    /// Whether the disk has failed, or a thread has ended although shards run.
    pub(crate) fn has_failed(&self) -> bool {
        let threads = [&self.writer, &self.reader, &self.recall];
        self.state.failure().is_some() || threads.iter().any(|it| it.is_finished())
    }

    /// Waits for the end of all threads; to be called when all shards have ended. False when one has panicked.
    pub(crate) fn join(self) -> bool {
        self.writer_doze.wake();
        let writer = self.writer.join();
        // A reader that is gone needs no word.
        let _ = self.jobs.send(Job::End);
        let _ = self.told.send(Told::End);
        let (reader, recall) = (self.reader.join(), self.recall.join());
        writer.is_ok() && reader.is_ok() && recall.is_ok()
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StationsError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _scope = Scope::enter(Component::Log);
            run();
        })
        .map_err(StationsError::Thread)
}

fn open(path: PathBuf) -> Result<Medium, StationsError> {
    Medium::open(&path).map_err(|source| StationsError::Folder { path, source })
}

fn log_config(config: &Config, folder: &DataFolder) -> Result<LogConfig, StationsError> {
    let log = &config.settings.log;
    let segment = log.segment_bytes.bytes();
    let mut sizes = LogConfig::new(folder.identity(), segment)?;
    if let Some(reserve) = reserve_segments(log.reserve_bytes.bytes(), segment) {
        sizes.reserve_segments = reserve;
    }
    Ok(sizes)
}

/// Fewer do not carry a full disk: the one that is written is not given back, the cleaner leaves one to others, and what becomes free while
/// another one fills is the next.
const RESERVE_SEGMENTS_MIN: u32 = 3;

/// Segments that take so many bytes, none for 0. What is too little for a full disk is raised and told, and keeps nobody from starting.
fn reserve_segments(bytes: u64, segment: u64) -> Option<u32> {
    if bytes == 0 {
        return None;
    }
    let asked = u32::try_from(bytes.div_ceil(segment)).unwrap_or(u32::MAX);
    let segments = asked.max(RESERVE_SEGMENTS_MIN);
    if segments > asked {
        tracing::warn!(
            event = "reserve_raised",
            asked_bytes = bytes,
            reserve_bytes = u64::from(segments) * segment,
            "log.reserve_bytes is less than three segments, with which a full disk would not be left again: three are kept"
        );
    }
    Some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With one segment acknowledgements stopped for ever once it was the one that is written.
    #[test]
    fn m47_a_reserve_that_does_not_carry_a_full_disk_is_raised() {
        let mib = |count: u64| count << 20;
        assert_eq!(reserve_segments(0, mib(64)), None);
        for (bytes, segments) in [
            (1, 3),
            (mib(64), 3),
            (mib(128), 3),
            (mib(192), 3),
            (mib(192) + 1, 4),
            (mib(640), 10),
            (u64::MAX, u32::MAX),
        ] {
            assert_eq!(reserve_segments(bytes, mib(64)), Some(segments), "{bytes}");
        }
    }
}
