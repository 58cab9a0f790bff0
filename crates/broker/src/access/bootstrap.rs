//! The first accounts: a file in the data folder that the next start moves into partition 0.
//!
//! It has hashes only, is 0600, and is gone once what it says is committed. A user that is there gets the password and the roles, and may come
//! in; its limits, its other roles and roles that are there stay as they are, and nobody else is touched. Taking it twice is taking it once, and
//! who has lost the last password gets in again by whoever may write into the data folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use courser_access::{
    Administration, Command, HashError, HashMemory, PasswordHash, Role, RoleName, SALT_BYTES,
    Table, User, UserName, UserState,
};
use courser_settings::{open_regular, read_open};
use rand::TryRng;
use rand::rngs::SysRng;
use zeroize::Zeroizing;

use super::{Access, ChangeError};
use crate::node::layout::BOOTSTRAP;

/// Largest file that is read.
const BYTES_MAX: u64 = 64 << 20;
/// How long one change may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often one change is made anew because somebody else has changed something meanwhile.
const TRIES: usize = 10;
/// Without those that look like others. 20 of 57 are 116 bits.
const LETTERS: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
const PASSWORD_LETTERS: usize = 20;

/// Why the first accounts were not made or not taken.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The file.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others could have written it.
    #[error("{} is not taken: it must belong to the user of the broker and be 0600", .0.display())]
    Open(PathBuf),
    /// Not in its form.
    #[error("{} is not in the form that `courser init` writes", path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// It was refused.
    #[error("the first accounts are not taken")]
    Change(#[from] ChangeError),
    /// No password could be made.
    #[error("no password can be made")]
    Hash(#[from] HashError),
    /// The system has no random bytes.
    #[error("the system gives no random numbers")]
    Random(#[source] rand::rngs::SysError),
}

/// An administrator who may do everything, with a password that nobody knows but who is shown it now.
///
/// # Errors
/// [`BootstrapError::Random`] and [`BootstrapError::Hash`].
pub fn first_administrator(name: UserName) -> Result<(Table, Zeroizing<String>), BootstrapError> {
    let password = new_password()?;
    let mut salt = [0; SALT_BYTES];
    SysRng
        .try_fill_bytes(&mut salt)
        .map_err(BootstrapError::Random)?;
    let hash = PasswordHash::new(password.as_bytes(), salt, &mut HashMemory::default())?;
    let role = RoleName::new("admin").expect("it is a name");
    let everything = ["allow all #", "allow subscribe $SYS/#"];
    let rules = everything.map(|rule| rule.parse().expect("it is a rule"));
    let admin = Role {
        rules: rules.into(),
        administration: Administration::Full,
        ..Role::default()
    };
    let user = User {
        password: Some(hash),
        roles: [role.clone()].into(),
        ..User::default()
    };
    let mut table = Table::default();
    table.apply(&Command::PutRole(role, admin));
    table.apply(&Command::PutUser(name, user));
    Ok((table, password))
}

/// Letters drawn one by one; bytes that would favour some are drawn again.
fn new_password() -> Result<Zeroizing<String>, BootstrapError> {
    let mut password = Zeroizing::new(String::with_capacity(PASSWORD_LETTERS));
    let fair = 256 - 256 % LETTERS.len();
    while password.len() < PASSWORD_LETTERS {
        let mut byte = [0];
        SysRng
            .try_fill_bytes(&mut byte)
            .map_err(BootstrapError::Random)?;
        let drawn = usize::from(byte[0]);
        if drawn < fair {
            password.push(char::from(LETTERS[drawn % LETTERS.len()]));
        }
    }
    Ok(password)
}

/// Writes the file into a data folder, which is made if it is not there. One that is there is an error.
///
/// # Errors
/// [`BootstrapError::File`]; nothing is there then that was not before.
pub fn write_bootstrap(folder: &Path, table: &Table) -> Result<PathBuf, BootstrapError> {
    let path = folder.join(BOOTSTRAP);
    let write = || -> io::Result<()> {
        if !folder.is_dir() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let text = serde_json::to_vec(table)?;
        let written = file
            .write_all(&text)
            .and_then(|()| file.sync_all())
            .and_then(|()| File::open(folder)?.sync_all());
        written.inspect_err(|_| {
            // Half of it would keep the next try out, and the server from starting. What cannot be removed is named by either.
            let _ = fs::remove_file(&path);
        })
    };
    match write() {
        Ok(()) => Ok(path),
        Err(source) => Err(BootstrapError::File { path, source }),
    }
}

/// Takes the file of a data folder, if there is one: the users in it. Blocks until they are committed.
///
/// # Errors
/// [`BootstrapError`]; the file stays.
pub(crate) fn take(folder: &Path, access: &Access) -> Result<Vec<UserName>, BootstrapError> {
    let path = folder.join(BOOTSTRAP);
    let failed = |source| BootstrapError::File {
        path: path.clone(),
        source,
    };
    let file = match open_regular(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let about = file.metadata().map_err(failed)?;
    let own = about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o077 == 0;
    if !own || !about.is_file() {
        return Err(BootstrapError::Open(path));
    }
    let bytes = read_open(file, BYTES_MAX).map_err(failed)?;
    let table: Table = serde_json::from_slice(&bytes).map_err(|source| BootstrapError::Form {
        path: path.clone(),
        source,
    })?;
    for (name, role) in table.roles() {
        amend(access, |now| {
            let is_there = now.role(name.as_str()).is_some();
            (!is_there).then(|| Command::PutRole(name.clone(), role.clone()))
        })?;
    }
    for (name, user) in table.users() {
        let mut was_there = false;
        amend(access, |now| {
            let before = now.user(name.as_str());
            was_there = before.is_some();
            let user = before.map_or_else(|| user.clone(), |before| renewed(before, user));
            Some(Command::PutUser(name.clone(), user))
        })?;
        tracing::info!(
            event = "bootstrap_taken",
            user = name.as_str(),
            password_replaced = was_there,
            administration = ?access.table().administration(name.as_str()),
            "the account that courser init made is there"
        );
    }
    fs::remove_file(&path).map_err(failed)?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)?;
    Ok(table.users().map(|(name, _)| name.clone()).collect())
}

/// A user that was there before, with what it proves itself with now. Nobody who knows its old secrets comes in by them.
fn renewed(before: &User, new: &User) -> User {
    User {
        state: UserState::Enabled,
        password: new.password.clone(),
        scram: new.scram.clone(),
        roles: before.roles.union(&new.roles).cloned().collect(),
        ..before.clone()
    }
}

/// Makes a change out of what there is when it is made; none where none is wanted.
fn amend(
    access: &Access,
    mut change: impl FnMut(&Table) -> Option<Command>,
) -> Result<(), ChangeError> {
    for _ in 0..TRIES {
        let now = access.table();
        let Some(command) = change(&now) else {
            return Ok(());
        };
        let (sender, receiver) = mpsc::sync_channel(1);
        access.change_at(now.revision(), command, move |result| {
            // Whoever waited may be gone.
            let _ = sender.try_send(result);
        });
        let made = receiver.recv_timeout(PATIENCE);
        match made.unwrap_or(Err(ChangeError::Unknown)) {
            Ok(_) => return Ok(()),
            Err(ChangeError::Overtaken) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ChangeError::Overtaken)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use courser_access::Limits;

    use super::*;
    use crate::access::shared::Change;

    /// What there is after the file of a folder was taken where there was `table`.
    fn taken(folder: &Path, mut table: Table) -> Table {
        let access = Arc::new(Access::alone());
        access.publish(&table);
        let (served, is_over) = (Arc::clone(&access), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let leader = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for asked in served.take_asked() {
                    assert_eq!(asked.only_at, Some(table.revision()));
                    let Change::One(command) = &asked.change else {
                        panic!("one at a time");
                    };
                    let checked = table.check(command);
                    if checked.is_ok() {
                        table.apply(command);
                        served.publish(&table);
                    }
                    (asked.answer)(checked.map(|()| table.revision()).map_err(Into::into));
                }
                thread::yield_now();
            }
        });
        let names = take(folder, &access).expect("it is taken");
        assert_eq!(names, [UserName::new("root").unwrap()]);
        is_over.store(true, Ordering::Relaxed);
        leader.join().expect("it serves");
        Table::clone(&access.table())
    }

    #[test]
    fn an_account_that_is_there_gets_a_password_and_keeps_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let (root, admin) = (
            UserName::new("root").unwrap(),
            RoleName::new("admin").unwrap(),
        );
        let (made, password) = first_administrator(root.clone()).unwrap();
        write_bootstrap(folder.path(), &made).unwrap();
        let mut before = taken(folder.path(), Table::default());
        assert!(before.has_administrator());
        // Somebody changes all of it, and forgets the password.
        let reader = RoleName::new("reader").unwrap();
        let role = Role {
            rules: vec!["allow all only/this".parse().unwrap()],
            administration: Administration::Full,
            ..Role::default()
        };
        before.apply(&Command::PutRole(admin.clone(), role.clone()));
        before.apply(&Command::PutRole(reader.clone(), Role::default()));
        let limits = Limits {
            connections: Some(3),
            ..Limits::default()
        };
        let changed = User {
            state: UserState::Disabled,
            roles: [reader.clone()].into(),
            limits,
            ..User::clone(before.user("root").unwrap())
        };
        before.apply(&Command::PutUser(root.clone(), changed));
        let (made, again) = first_administrator(root).unwrap();
        write_bootstrap(folder.path(), &made).unwrap();
        let after = taken(folder.path(), before);
        assert_eq!(*after.role("admin").unwrap(), role, "a role stays as it is");
        let user = after.user("root").unwrap();
        assert_eq!(user.state, UserState::Enabled);
        assert_eq!(user.limits, limits);
        assert_eq!(user.roles, [admin, reader].into());
        let hash = user.password.as_ref().unwrap();
        assert!(hash.verify(again.as_bytes(), &mut HashMemory::default()));
        assert!(!hash.verify(password.as_bytes(), &mut HashMemory::default()));
    }

    #[test]
    fn passwords_are_long_and_differ() {
        let (first, second) = (new_password().unwrap(), new_password().unwrap());
        assert_eq!(first.len(), PASSWORD_LETTERS);
        assert!(first.bytes().all(|letter| LETTERS.contains(&letter)));
        assert_ne!(*first, *second);
    }

    #[test]
    fn a_pipe_in_the_place_of_the_file_is_refused_and_holds_nobody() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, folder.path().join(BOOTSTRAP), FileType::Fifo, mode, 0).unwrap();
        let taken = take(folder.path(), &Access::alone());
        assert!(
            matches!(taken, Err(BootstrapError::File { .. })),
            "{taken:?}"
        );
    }

    #[test]
    fn i14_the_file_has_no_password_and_is_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let name = UserName::new("root").unwrap();
        let (table, password) = first_administrator(name).unwrap();
        let path = write_bootstrap(&data, &table).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("$argon2id$") && !text.contains(&**password));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&data).unwrap().mode() & 0o777, 0o700);
        assert!(table.has_administrator());
        let hash = table.user("root").unwrap().password.as_ref().unwrap();
        assert!(hash.verify(password.as_bytes(), &mut HashMemory::default()));
        assert!(
            write_bootstrap(&data, &table).is_err(),
            "one that is there is left"
        );
    }

    #[test]
    fn i12_a_file_that_others_could_have_written_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (table, _) = first_administrator(UserName::new("root").unwrap()).unwrap();
        let path = write_bootstrap(folder.path(), &table).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o660);
        fs::set_permissions(&path, open).unwrap();
        let taken = take(folder.path(), &Access::alone());
        assert!(matches!(taken, Err(BootstrapError::Open(_))), "{taken:?}");
        assert!(path.exists());
    }
}
