//! What a count of instructions depends on besides our code.

use crate::process::{command, output};
use crate::repo::Repo;
use anyhow::{Context, Result};
use std::env::consts::ARCH;

/// Counts can be compared when all of this is the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Environment {
    /// Version and host, as `rustc` says them.
    pub(super) rustc: String,
    pub(super) valgrind: String,
    /// The C library: copying and comparing bytes is its code.
    pub(super) libc: String,
    /// Architecture, whether the wide instructions are there for which libraries look at run time, and which processor it is:
    /// its kind and the size of its caches choose how bytes are copied.
    pub(super) cpu: String,
}

impl Environment {
    /// Of this machine.
    ///
    /// # Errors
    /// When `rustc` or `valgrind` cannot be run.
    pub(super) fn here(repo: &Repo) -> Result<Self> {
        let rustc = output(command("rustc", &["-vV"]).current_dir(&repo.root))?;
        Ok(Self {
            rustc: rustc_and_host(&rustc).context("rustc -vV says version and host")?,
            valgrind: output(&mut command("valgrind", &["--version"]))?
                .trim()
                .to_owned(),
            libc: output(&mut command("getconf", &["GNU_LIBC_VERSION"]))
                .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
            cpu: cpu(),
        })
    }

    /// A line for each thing that is not the same.
    pub(super) fn differences(&self, here: &Self) -> Vec<String> {
        self.named()
            .into_iter()
            .zip(here.named())
            .filter(|((_, recorded), (_, here))| recorded != here)
            .map(|((name, recorded), (_, here))| {
                format!("{name} is {here:?}, the record was made with {recorded:?}")
            })
            .collect()
    }

    /// The processor as a part of a file's name: small letters, digits, `_` and single hyphens.
    pub(super) fn slug(&self) -> String {
        let cpu = self.cpu.to_ascii_lowercase();
        let words = cpu.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join("-")
    }

    /// Each thing with its name in the record.
    pub(super) fn named(&self) -> [(&'static str, &str); 4] {
        [
            ("rustc", &self.rustc),
            ("valgrind", &self.valgrind),
            ("libc", &self.libc),
            ("cpu", &self.cpu),
        ]
    }
}

/// `rustc 1.95.0 (59807616e 2026-04-14) x86_64-unknown-linux-gnu` out of what `rustc -vV` prints.
fn rustc_and_host(text: &str) -> Option<String> {
    let version = text.lines().next()?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "))?;
    Some(format!("{version} {host}"))
}

#[cfg(target_arch = "x86_64")]
fn cpu() -> String {
    let wide = if std::arch::is_x86_feature_detected!("avx2") {
        "with"
    } else {
        "without"
    };
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    format!("{ARCH} {wide} avx2, {}", processor(&info))
}

/// `AuthenticAMD family 25 model 17 stepping 1` out of `/proc/cpuinfo`.
#[cfg(target_arch = "x86_64")]
fn processor(info: &str) -> String {
    let of = |name: &str| {
        let found = info.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then_some(value.trim())
        });
        found.unwrap_or("unknown").to_owned()
    };
    format!(
        "{} family {} model {} stepping {}",
        of("vendor_id"),
        of("cpu family"),
        of("model"),
        of("stepping")
    )
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu() -> String {
    ARCH.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Environment, rustc_and_host};

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn which_processor_it_is() {
        let info = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\
                    stepping\t: 1\n\nprocessor\t: 1\nmodel\t\t: 18\n";
        let shown = super::processor(info);
        assert_eq!(shown, "AuthenticAMD family 25 model 17 stepping 1");
        let nothing = "unknown family unknown model unknown stepping unknown";
        assert_eq!(super::processor(""), nothing);
    }

    #[test]
    fn version_and_host_of_rustc() {
        let text =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n";
        assert_eq!(
            rustc_and_host(text).as_deref(),
            Some("rustc 1.95.0 (59807616e 2026-04-14) x86_64-unknown-linux-gnu")
        );
        assert_eq!(rustc_and_host("rustc 1.95.0\n"), None);
    }

    #[test]
    fn each_processor_has_a_file() {
        let environment = Environment {
            cpu: "x86_64 with avx2, AuthenticAMD family 25 model 1 stepping 1".to_owned(),
            ..Environment::default()
        };
        let file = "x86_64-with-avx2-authenticamd-family-25-model-1-stepping-1";
        assert_eq!(environment.slug(), file);
    }

    #[test]
    fn each_difference_is_told() {
        let recorded = Environment {
            rustc: "rustc 1.95.0".to_owned(),
            valgrind: "valgrind-3.19.0".to_owned(),
            ..Environment::default()
        };
        assert!(recorded.differences(&recorded.clone()).is_empty());
        let here = Environment {
            valgrind: "valgrind-3.24.0".to_owned(),
            ..recorded.clone()
        };
        assert_eq!(
            recorded.differences(&here),
            [r#"valgrind is "valgrind-3.24.0", the record was made with "valgrind-3.19.0""#]
        );
        assert_eq!(Environment::default().differences(&here).len(), 2);
    }
}
