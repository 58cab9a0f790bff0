//! `cargo xtask tidy`: house rules that the compiler does not know.

mod advisories;
mod arrows;
mod dependencies;
mod events;
mod pure;
mod reasons;
mod report;
mod words;

use crate::repo::Repo;
use anyhow::{Result, bail};

/// Checks everything and reports all that is wrong at once.
///
/// # Errors
/// When any rule is broken.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    let metadata = repo.metadata()?;
    let files = repo.text_files()?;
    let mut broken = arrows::broken(&metadata)?;
    broken.extend(arrows::stale(&metadata)?);
    broken.extend(pure::banned_dependencies(&metadata)?);
    let reasons = files
        .iter()
        .find(|file| file.path == dependencies::PAGE)
        .map_or("", |file| file.text.as_str());
    broken.extend(dependencies::unexplained(&metadata, reasons)?);
    broken.extend(files.iter().flat_map(pure::impure_lines));
    broken.extend(files.iter().flat_map(words::forbidden));
    broken.extend(files.iter().filter_map(words::unsafe_not_forbidden));
    broken.extend(files.iter().flat_map(reasons::missing));
    broken.extend(advisories::untested(&files));
    broken.extend(events::unlike(&files));
    report::long_files(&files);
    for line in &broken {
        println!("{line}");
    }
    if !broken.is_empty() {
        bail!("{} house rules are broken", broken.len());
    }
    println!(
        "tidy: arrows, pure crates and words are right in {} files",
        files.len()
    );
    Ok(())
}
