//! Whether a file of the folder of checkpoints is what was written.

use super::{CheckpointError, CheckpointReader, file_name, manifest};
use crate::disk::DiskFile;

/// Reads a checkpoint, or the manifest that names one, to its end. Of a manifest the name of that checkpoint. Memory: one piece, or the
/// manifest.
///
/// # Errors
/// The first thing that is not what was written, or that the disk does not give.
pub fn check_checkpoint<F: DiskFile>(
    file: F,
    name: &str,
) -> Result<Option<String>, CheckpointError> {
    if manifest::of_file_name(name).is_some() {
        let bytes = manifest::bytes(&file, name)?;
        let (_, manifest) = manifest::decode(&bytes, name)?;
        return Ok(Some(file_name(manifest.partition, manifest.at.index)));
    }
    let mut reader = CheckpointReader::new(file, name.to_owned())?;
    while reader.next_piece()?.is_some() {}
    Ok(None)
}
