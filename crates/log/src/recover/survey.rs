//! Which files there are.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
};

use super::{report::Leftovers, unseen::Unseen};
use crate::{
    config::{LogConfig, SEGMENT_BYTES_MIN},
    disk::Disk,
    error::OpenError,
    format::{Header, Seen, SegmentHeader},
    ids::{NodeIdentity, Place, SegmentNumber},
    prepare::Unwanted,
    scan::{Fault, Window},
    summary::Summary,
};

/// Files of a log's folder.
#[derive(Debug)]
pub(super) struct Survey<F> {
    pub(super) files: BTreeMap<SegmentNumber, Found<F>>,
    /// Files that hold nothing for sure, as long as a segment is now, by the number of their name: recycling stopped half-way.
    pub(super) blank: VecDeque<SegmentNumber>,
    /// The same of another length, which are of no use.
    pub(super) unfit: Vec<Unwanted>,
    /// Files that were being made, which never had a number, and summaries without a segment.
    pub(super) unfinished: Vec<String>,
    pub(super) next_segment: SegmentNumber,
    /// To be made: an empty segment in place of all that there were.
    pub(super) gone: Option<SegmentNumber>,
    pub(super) leftovers: Leftovers,
    /// How large segments are or were, as headers say.
    pub(super) sizes: BTreeSet<u64>,
}

/// A segment's file.
#[derive(Debug)]
pub(super) struct Found<F> {
    pub(super) window: Window<F>,
    /// Its header is intact.
    pub(super) has_header: bool,
    /// The last start that has written to it, as its header says.
    pub(super) writer: Option<u32>,
    /// Shorter than it was made: nothing that a loss of power does, since segments are filled before they get a header.
    pub(super) is_short: bool,
    /// What of it could not be read.
    pub(super) unseen: Option<Unseen>,
    /// What the file beside it says of it, unless it was passed over.
    pub(super) summary: Option<Summary>,
    /// Whether there is such a file, and it is whole.
    pub(super) is_summed: bool,
}

impl<F: crate::disk::DiskFile> Survey<F> {
    pub(super) fn new<D: Disk<File = F>>(disk: &D, config: &LogConfig) -> Result<Self, OpenError> {
        let mut survey = Self {
            files: BTreeMap::new(),
            blank: VecDeque::new(),
            unfit: Vec::new(),
            unfinished: Vec::new(),
            next_segment: SegmentNumber(1),
            gone: None,
            leftovers: Leftovers::default(),
            sizes: BTreeSet::new(),
        };
        let mut names = disk.list().map_err(cannot_open("the log's folder"))?;
        names.sort_unstable();
        let mut summaries = Vec::new();
        for name in names {
            if let Some(number) = SegmentNumber::of_file_name(&name) {
                survey.look(disk, config, number, &name)?;
            } else if let Some(number) = SegmentNumber::of_summary_name(&name) {
                summaries.push(number);
            } else if name.ends_with(".new") {
                survey.unfinished.push(name);
            } else {
                survey.leftovers.strangers += 1;
            }
        }
        survey.leftovers.unfinished = survey.unfinished.len() as u64;
        survey.measure_headless();
        survey.look_at_summaries(disk, config, summaries);
        Ok(survey)
    }

    /// None is believed where any segment is not what it was made.
    fn look_at_summaries<D: Disk<File = F>>(
        &mut self,
        disk: &D,
        config: &LogConfig,
        numbers: Vec<SegmentNumber>,
    ) {
        let mut files = self.files.values();
        let are_sound = files.all(|found| found.has_header && !found.is_short);
        for number in numbers {
            match self.files.get_mut(&number) {
                Some(found) if are_sound && !config.reads_all => {
                    found.summary = Summary::read(disk, config.node, number);
                    found.is_summed = found.summary.is_some();
                }
                Some(_) => {}
                None => self.unfinished.push(number.summary_name()),
            }
        }
    }

    /// Only once all was read: a start that is refused changes nothing.
    pub(super) fn remove_unfinished<D: Disk<File = F>>(&self, disk: &D) -> Result<(), OpenError> {
        for name in &self.unfinished {
            disk.remove(name).map_err(cannot_open(name))?;
        }
        Ok(())
    }

    /// Says which files without a header are short. How large they were made is known from the headers of the others and not from the
    /// setting, which may have been changed since.
    fn measure_headless(&mut self) {
        let files = self.files.values();
        let longest = files.map(|found| found.window.len()).max();
        let least = longest.unwrap_or(0).max(SEGMENT_BYTES_MIN);
        for found in self.files.values_mut().filter(|found| !found.has_header) {
            let len = found.window.len();
            found.is_short = if self.sizes.is_empty() {
                len < least
            } else {
                !self.sizes.contains(&len)
            };
        }
    }

    fn look<D: Disk<File = F>>(
        &mut self,
        disk: &D,
        config: &LogConfig,
        number: SegmentNumber,
        name: &str,
    ) -> Result<(), OpenError> {
        self.next_segment = self.next_segment.max(number.next());
        let file = disk.open(name).map_err(cannot_open(name))?;
        let mut window = Window::new(file).map_err(cannot_open(name))?;
        let mut unseen = None;
        let header = match window.bytes(0, size_of::<SegmentHeader>() as u64) {
            Ok(block) => SegmentHeader::see(&block),
            Err(Fault::End) => Seen::Nothing,
            Err(Fault::Unreadable(source)) => {
                let place = Place {
                    segment: number,
                    offset: 0,
                };
                unseen = Some(Unseen::new(place, source)?);
                Seen::Nothing
            }
        };
        let mut writer = None;
        let (has_header, is_short) = match header {
            Seen::Header(header) => {
                let found = NodeIdentity(header.node.get());
                if found != config.node {
                    return Err(OpenError::Foreign {
                        segment: number,
                        found,
                        expected: config.node,
                    });
                }
                self.sizes.insert(header.segment_bytes.get());
                if header.segment.get() != number.0 {
                    self.leftovers.half_recycled += 1;
                    match window.len() {
                        bytes if bytes == config.segment_bytes() => self.blank.push_back(number),
                        bytes => self.unfit.push(Unwanted {
                            segment: number,
                            bytes,
                        }),
                    }
                    return Ok(());
                }
                writer = Some(header.start.get());
                (true, window.len() < header.segment_bytes.get())
            }
            Seen::Other(version) => {
                return Err(OpenError::Version {
                    segment: number,
                    version,
                });
            }
            Seen::Nothing => (false, false),
        };
        let found = Found {
            window,
            has_header,
            writer,
            is_short,
            unseen,
            summary: None,
            is_summed: false,
        };
        self.files.insert(number, found);
        Ok(())
    }
}

fn cannot_open(name: &str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Folder {
        name: name.to_owned(),
        source,
    }
}
