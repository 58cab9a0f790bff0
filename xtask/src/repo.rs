//! The checked-out project: its root, its files, what cargo knows of it.

use crate::process;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The project that this command was built in.
pub(crate) struct Repo {
    pub(crate) root: PathBuf,
}

/// A file of the project with text in it.
pub(crate) struct TextFile {
    /// From the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Repo {
    /// The folder above this crate.
    pub(crate) fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("the crate xtask has a parent folder")?;
        Ok(Self {
            root: root.to_owned(),
        })
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Every file that git tracks or would track, if it is text. Sorted by path.
    pub(crate) fn text_files(&self) -> Result<Vec<TextFile>> {
        let listing = process::output(
            process::command(
                "git",
                &[
                    "ls-files",
                    "-z",
                    "--cached",
                    "--others",
                    "--exclude-standard",
                ],
            )
            .current_dir(&self.root),
        )?;
        let mut paths: Vec<&str> = listing
            .split('\0')
            .filter(|path| !path.is_empty())
            .collect();
        paths.sort_unstable();
        paths.dedup();
        // A tracked file may have been removed, and a file without UTF-8 is not text.
        let read = |path: &str| {
            let text = fs::read_to_string(self.path(path)).ok()?;
            Some(TextFile {
                path: path.to_owned(),
                text,
            })
        };
        Ok(paths.into_iter().filter_map(read).collect())
    }

    /// What `cargo metadata` says of the workspace.
    pub(crate) fn metadata(&self) -> Result<Value> {
        let json = process::output(
            process::command("cargo", &["metadata", "--format-version=1", "--locked"])
                .current_dir(&self.root),
        )?;
        serde_json::from_str(&json).context("cargo metadata prints JSON")
    }

    /// Where cargo puts what it builds.
    pub(crate) fn target(&self) -> Result<PathBuf> {
        let json = process::output(
            process::command("cargo", &["metadata", "--format-version=1", "--no-deps"])
                .current_dir(&self.root),
        )?;
        let metadata: Value = serde_json::from_str(&json).context("cargo metadata prints JSON")?;
        let target = metadata["target_directory"]
            .as_str()
            .context("cargo metadata names the target folder")?;
        Ok(PathBuf::from(target))
    }
}
