//! What the files of a data folder are written in (docs/log-format.md).

use courser_contract::RECORD_VERSION;
use courser_engine::{ENGINE_VERSION, STATE_VERSION};
use courser_log::{CHECKPOINT_VERSION, SEGMENT_VERSION};

use crate::{access, backup, node};

/// Each format with the version in which this program writes it. Files of a later version are refused.
pub const FORMATS: [(&str, u32); 8] = [
    ("data_folder", node::VERSION),
    ("segment", SEGMENT_VERSION as u32),
    ("record", RECORD_VERSION as u32),
    ("engine", ENGINE_VERSION as u32),
    ("checkpoint", CHECKPOINT_VERSION as u32),
    ("state", STATE_VERSION as u32),
    ("accounts", access::VERSION),
    ("backup", backup::VERSION),
];
