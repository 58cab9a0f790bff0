//! What tokens are verified with: keys read from files, and read again when these change.
//!
//! What is read is checked as a whole before it replaces what is there. Connections stay until their tokens end. A key set that has no
//! key of use any more takes back those that it had: whoever withdraws the last one wants nobody to come in with it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use courser_access::{NameError, RoleName};
use courser_settings::{Login, Settings, Tokens, read_whole};
use courser_token::{KeyError, KeySet, Loaded, Policy, Verifier};

use crate::doors::{Reread, Telling, Watched};
use crate::faults::first;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why tokens cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// A file cannot be read.
    #[error("tokens: cannot read {}", path.display())]
    Read {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What is in it cannot be used.
    #[error("tokens: {}", path.display())]
    Keys {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: KeyError,
    },
    /// `tokens.roles` names what cannot be a role.
    #[error("tokens.roles: {name:?} cannot be the name of a role")]
    Role {
        /// The name.
        name: String,
        /// Why.
        #[source]
        source: NameError,
    },
}

/// See the module.
pub(crate) struct TokenKeys {
    settings: Tokens,
    roles: Vec<RoleName>,
    /// What the files said last; held while they are read.
    texts: Mutex<Vec<Vec<u8>>>,
    current: ArcSwap<Verifier>,
}

impl std::fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKeys")
    }
}

impl TokenKeys {
    /// Reads the files, where a listener asks for tokens.
    pub(crate) fn read(settings: &Settings) -> Result<Option<Arc<Self>>, TokensError> {
        Self::read_all(settings).map_err(first)
    }

    /// All that is wrong with the files and with `tokens.roles`, where a listener asks for tokens.
    pub(crate) fn faults(settings: &Settings) -> Vec<TokensError> {
        Self::read_all(settings).err().unwrap_or_default()
    }

    fn read_all(settings: &Settings) -> Result<Option<Arc<Self>>, Vec<TokensError>> {
        if !settings.logins().any(|login| login == Login::Tokens) {
            return Ok(None);
        }
        let settings = settings.tokens.clone();
        let (mut roles, mut errors) = (Vec::new(), Vec::new());
        for name in &settings.roles {
            match RoleName::new(name) {
                Ok(role) => roles.push(role),
                Err(source) => errors.push(TokensError::Role {
                    name: name.clone(),
                    source,
                }),
            }
        }
        let verified = texts(&settings).and_then(|texts| {
            let verifier = verifier((&settings, &roles), &texts, Reading::First)?;
            Ok((texts, verifier))
        });
        match verified {
            Ok((texts, verifier)) if errors.is_empty() => Ok(Some(Arc::new(Self {
                texts: Mutex::new(texts),
                current: ArcSwap::from_pointee(verifier),
                settings,
                roles,
            }))),
            Ok(_) => Err(errors),
            Err(more) => {
                errors.extend(more);
                Err(errors)
            }
        }
    }

    /// What counts now.
    pub(crate) fn verifier(&self) -> Arc<Verifier> {
        self.current.load_full()
    }

    /// Reads the files again, and says what came of it. Blocks for as long as the disk takes.
    pub(crate) fn reread_and_tell(&self, telling: Telling) -> Result<(), TokensError> {
        let reread = self.reread();
        match &reread {
            Ok(Reread::Same) => {}
            Ok(Reread::Changed) => tracing::info!(
                event = "token_keys_changed",
                "tokens are verified with new keys"
            ),
            Err(error) if telling == Telling::All => tracing::error!(
                event = "token_keys_refused",
                error = error as &dyn std::error::Error,
                "tokens are verified with the old keys"
            ),
            Err(_) => {}
        }
        reread.map(|_| ())
    }

    fn reread(&self) -> Result<Reread, TokensError> {
        let mut before = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = texts(&self.settings).map_err(first)?;
        if *before == texts {
            return Ok(Reread::Same);
        }
        let next =
            verifier((&self.settings, &self.roles), &texts, Reading::Again).map_err(first)?;
        self.current.store(Arc::new(next));
        *before = texts;
        Ok(Reread::Changed)
    }
}

impl Watched for TokenKeys {
    fn files(&self) -> Vec<PathBuf> {
        files(&self.settings).map(|(_, path)| path).collect()
    }

    fn look(&self, telling: Telling) {
        // The log has it.
        let _ = self.reread_and_tell(telling);
    }
}

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    KeySet,
    PublicKey,
    Secret,
}

impl Holds {
    /// The setting that names such files.
    const fn setting(self) -> &'static str {
        match self {
            Self::KeySet => "tokens.key_set",
            Self::PublicKey => "tokens.public_keys",
            Self::Secret => "tokens.secret_file",
        }
    }
}

fn files(settings: &Tokens) -> impl Iterator<Item = (Holds, PathBuf)> {
    let of = |holds| move |path| (holds, path);
    let key_set = settings.key_set.clone().into_iter();
    let public = settings.public_keys.iter().map(PathBuf::from);
    let secret = settings.secret_file.clone().into_iter();
    key_set
        .map(of(Holds::KeySet))
        .chain(public.map(of(Holds::PublicKey)))
        .chain(secret.map(of(Holds::Secret)))
}

fn texts(settings: &Tokens) -> Result<Vec<Vec<u8>>, Vec<TokensError>> {
    let (mut texts, mut errors) = (Vec::new(), Vec::new());
    for (holds, path) in files(settings) {
        match read_whole(&path, FILE_BYTES_MAX) {
            Ok(text) => texts.push(text),
            Err(source) => errors.push(TokensError::Read {
                setting: holds.setting(),
                path,
                source,
            }),
        }
    }
    match errors.is_empty() {
        true => Ok(texts),
        false => Err(errors),
    }
}

/// What a key set without a key of use means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// A mistake.
    First,
    /// The end of the keys that it had.
    Again,
}

fn verifier(
    (settings, roles): (&Tokens, &[RoleName]),
    texts: &[Vec<u8>],
    reading: Reading,
) -> Result<Verifier, Vec<TokensError>> {
    let (mut keys, mut errors) = (KeySet::default(), Vec::new());
    for (text, (holds, path)) in texts.iter().zip(files(settings)) {
        let added = match holds {
            Holds::KeySet => add_key_set(&mut keys, text, &path, reading),
            Holds::PublicKey => keys.add_public_key(text),
            Holds::Secret => keys.add_secret(text),
        };
        if let Err(source) = added {
            errors.push(TokensError::Keys {
                setting: holds.setting(),
                path,
                source,
            });
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if keys.is_empty() {
        tracing::error!(
            event = "token_keys_withdrawn",
            "no key is left: no token counts until there is one"
        );
    }
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let policy = Policy {
        audience: settings.audience.clone(),
        issuers: settings.issuers.clone(),
        leeway_seconds: settings.leeway.as_secs(),
        user_claim: settings.user_claim.clone(),
        roles_claim: given(&settings.roles_claim),
        roles: roles.to_vec(),
    };
    Ok(Verifier::new(keys, policy))
}

fn add_key_set(
    keys: &mut KeySet,
    text: &[u8],
    path: &Path,
    reading: Reading,
) -> Result<(), KeyError> {
    let Loaded { used, passed_over } = match keys.add_key_set(text) {
        Err(KeyError::NoneOfUse(passed_over)) if reading == Reading::Again => Loaded {
            used: 0,
            passed_over,
        },
        loaded => loaded?,
    };
    if passed_over > 0 {
        tracing::warn!(event = "token_keys_passed_over", file = %path.display(), used, passed_over, "some keys cannot be used for tokens");
    }
    Ok(())
}
