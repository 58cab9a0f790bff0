//! What the writer does for those who copy the log, and for those who read and check it.

use courser_engine::DiskRoom;
use courser_log::{Disk, WriteError};

use super::Writer;
use crate::stations::requests::Request;

impl<D: Disk> Writer<D> {
    /// Answers what was asked.
    ///
    /// # Errors
    /// That of a sync, which is final.
    pub(super) fn take_requests(&mut self) -> Result<(), WriteError> {
        while let Some(request) = self.next_request() {
            match request {
                Request::Cut { answer, lost } => {
                    let cut = self.log.cut()?;
                    let ends = (cut.segments.first(), cut.segments.last());
                    if let (Some(first), Some(last)) = ends {
                        self.log.hold(Some(first.segment..=last.segment));
                    }
                    self.holding.begin(lost);
                    // Whoever has asked may have gone: it says so by another request.
                    let _ = answer.send(cut);
                }
                Request::Hold(Some(segments)) if self.holding.is_held() => {
                    self.log.hold(Some(segments));
                }
                // They were needed: whoever copies hears of it.
                Request::Hold(Some(_)) => {}
                Request::Hold(None) => {
                    self.holding.end(false);
                    self.log.hold(None);
                }
                Request::Segments(answer) => {
                    let _ = answer.send(self.log.held_segments());
                }
                Request::Places(answer) => {
                    let _ = answer.send(self.log.places());
                }
                Request::Damaged(segment) => {
                    self.log.note_damaged(segment);
                    self.look_ahead();
                }
            }
        }
        Ok(())
    }

    fn next_request(&mut self) -> Option<Request> {
        let put_off = self.put_off.pop_front();
        put_off.or_else(|| self.requests.try_recv().ok())
    }

    /// Says where everything is, to whoever asks for that alone. Who wants to copy hears at once that he cannot: the log's reader waits for
    /// that answer, and finishes the checkpoints that give room. The other requests wait until there is some.
    pub(super) fn tell_places(&mut self) {
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Places(answer) => {
                    let _ = answer.send(self.log.places());
                }
                Request::Damaged(segment) => self.log.note_damaged(segment),
                Request::Cut { .. } => {}
                Request::Hold(_) | Request::Segments(_) => {
                    self.put_off.push_back(request);
                }
            }
        }
    }

    /// A disk that is short of room gets back what is only copied (M47).
    pub(super) fn let_go(&mut self, room: DiskRoom) {
        if room == DiskRoom::Short && self.holding.end(true) {
            self.log.hold(None);
        }
    }
}
