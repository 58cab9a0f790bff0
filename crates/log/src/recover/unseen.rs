//! What the disk does not give (I1): a batch that was acknowledged may stand there, so nothing is cut before it and no file with it is used
//! again.
//!
//! What is known to have been synced and cannot be read is rot as any other: it is reported, and its bytes stay where they are. Where nobody
//! knows, the start is refused, and nothing was changed. So it is wherever the same call is worth another try: the next start may read all.

use std::io;

use super::{chain::Chain, picture::Picture, survey::Survey};
use crate::{
    disk::{DiskFile, is_passing},
    error::OpenError,
    ids::Place,
};

/// The furthest place of a file that could not be read.
#[derive(Debug)]
pub(super) struct Unseen {
    offset: u64,
    source: io::Error,
}

impl Unseen {
    /// # Errors
    /// When it is not to be had for the moment only.
    pub(super) fn new(place: Place, source: io::Error) -> Result<Self, OpenError> {
        if is_passing(&source) {
            return Err(OpenError::Read { place, source });
        }
        let offset = place.offset;
        Ok(Self { offset, source })
    }
}

impl<F: DiskFile> Chain<F> {
    /// Remembers what could not be read.
    pub(super) fn cannot_see(&mut self, place: Place, source: io::Error) -> Result<(), OpenError> {
        let unseen = Unseen::new(place, source)?;
        if let Some(found) = self.files.get_mut(&place.segment)
            && found
                .unseen
                .as_ref()
                .is_none_or(|it| it.offset < unseen.offset)
        {
            found.unseen = Some(unseen);
        }
        Ok(())
    }

    /// Whether everything from a place on could be read, this segment and all later ones, so that what was not found is not there.
    pub(super) fn has_seen_all(&mut self, from: Place) -> Result<(), OpenError> {
        for (segment, found) in self.files.range_mut(from.segment..) {
            let is_behind = |it: &Unseen| *segment > from.segment || it.offset >= from.offset;
            if let Some(Unseen { offset, source }) = found.unseen.take_if(|it| is_behind(it)) {
                let place = Place {
                    segment: *segment,
                    offset,
                };
                return Err(OpenError::Read { place, source });
            }
        }
        Ok(())
    }
}

/// Whether all was read of the files in which nothing was found: those are used again.
pub(super) fn unused_are_seen<F>(
    survey: &mut Survey<F>,
    picture: &Picture,
) -> Result<(), OpenError> {
    let unused = survey.files.iter_mut();
    let unused = unused.filter(|(number, _)| !picture.segments.contains_key(number));
    for (number, found) in unused {
        if let Some(Unseen { offset, source }) = found.unseen.take() {
            let place = Place {
                segment: *number,
                offset,
            };
            return Err(OpenError::Read { place, source });
        }
    }
    Ok(())
}
