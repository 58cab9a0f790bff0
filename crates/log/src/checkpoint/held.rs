//! What a copy of a folder of checkpoints needs.

use std::io;

use super::{CheckpointError, CheckpointStore, failed, file_name, manifest, of_file_name};
use crate::disk::Disk;

/// A file of the folder, held open: it can be read to its end also when a newer one takes its place.
#[derive(Debug)]
pub struct HeldFile<F> {
    /// Its name, which only this crate gives.
    pub name: String,
    /// The file.
    pub file: F,
}

impl<D: Disk> CheckpointStore<D> {
    /// Opens the manifests, and the checkpoints that they name. Of a partition whose manifest is damaged all files. To be called
    /// where no checkpoint ends meanwhile: on the thread that finishes them.
    ///
    /// # Errors
    /// When the folder or a file cannot be read. A checkpoint that is not there is left out.
    pub fn hold(&self) -> Result<Vec<HeldFile<D::File>>, CheckpointError> {
        let listed = self.disk.list();
        let mut names = listed.map_err(failed("listing", "the checkpoints' folder"))?;
        names.sort_unstable();
        let mut wanted = Vec::new();
        for name in &names {
            let Some(partition) = manifest::of_file_name(name) else {
                continue;
            };
            wanted.push(name.clone());
            match manifest::read(&self.disk, name, self.node, partition) {
                Ok(manifest) => wanted.push(file_name(partition, manifest.at.index)),
                Err(CheckpointError::Damaged { .. }) => {
                    let of = |name: &&String| {
                        of_file_name(name).is_some_and(|(found, _)| found == partition)
                    };
                    wanted.extend(names.iter().filter(of).cloned());
                }
                Err(error) => return Err(error),
            }
        }
        let mut held = Vec::new();
        for name in wanted {
            match self.disk.open(&name) {
                Ok(file) => held.push(HeldFile { name, file }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("opening", &name)(error)),
            }
        }
        Ok(held)
    }
}
