//! Errors of the API: one table of stable numbers. A number that is not used any more is never used again.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use courser_broker::AskError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal, $word:literal, $status:ident, $hint:literal;)+) => {
        /// What went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Code {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        impl Code {
            /// All of them, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Its word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// What it means.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }

            /// What to do about it.
            #[must_use]
            pub const fn hint(self) -> &'static str {
                match self { $(Self::$name => $hint,)+ }
            }

            const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)+ }
            }
        }
    };
}

codes! {
    /// A part of the question cannot be understood.
    BadRequest = 1000, "bad_request", BAD_REQUEST, "look at the page /api for what the route takes";
    /// Nobody has said who asks, or token, user name or password are not right.
    Unauthorized = 1001, "unauthorized", UNAUTHORIZED, "send the token of DATA/admin.token as \"Authorization: Bearer\", use the socket DATA/admin.sock, or say --operator NAME";
    /// Whoever asks may not do this.
    Forbidden = 1002, "forbidden", FORBIDDEN, "ask as the user that runs the broker, as root, or as a user of a role with the administration for it: courser role list";
    /// There is no such route.
    NoRoute = 1003, "no_route", NOT_FOUND, "the page /api lists all routes; is the command newer than the server?";
    /// There is no answer in time.
    TimedOut = 1004, "timed_out", GATEWAY_TIMEOUT, "try again; if it stays so, look at courser_shard_longest_turn_seconds";
    /// Too many questions wait for the shards, or are under way.
    Busy = 1005, "busy", SERVICE_UNAVAILABLE, "try again in a moment";
    /// The server is starting or stopping.
    Unavailable = 1006, "unavailable", SERVICE_UNAVAILABLE, "look at /readyz, and try again when it says 200";
    /// The route does not take this method.
    BadMethod = 1007, "bad_method", METHOD_NOT_ALLOWED, "the page /api lists the methods of all routes";
    /// Too many logins from this address have failed, or are under way.
    LoginRate = 1008, "login_rate", TOO_MANY_REQUESTS, "wait, for a minute at most or what login_failures.wait_max says; the token and the socket do not wait";
    /// The body of the question is larger than the route takes.
    BodyTooLarge = 1009, "body_too_large", PAYLOAD_TOO_LARGE, "send less; an import of more users goes in parts: the first as courser access import, the others as courser user import";
    /// Answers hold as much memory as they may, or memory is full.
    NoMemory = 1010, "no_memory", SERVICE_UNAVAILABLE, "try again in some seconds, with a smaller limit; while memory is full, over the socket DATA/admin.sock";
    /// No connection has this client id.
    NoClient = 1100, "no_client", NOT_FOUND, "courser client list shows who is connected";
    /// No session is kept for this client id.
    NoSession = 1200, "no_session", NOT_FOUND, "courser session list shows the sessions that there are";
    /// The session has a connection, or one is coming or going.
    SessionInUse = 1201, "session_in_use", CONFLICT, "courser client kick closes the connection first";
    /// The topic has no retained message.
    NoRetained = 1300, "no_retained_message", NOT_FOUND, "courser retained list shows the topics that have one";
    /// The disk has lost the retained message of the topic.
    RetainedDamaged = 1301, "retained_message_damaged", INTERNAL_SERVER_ERROR, "publish another one, take it away with courser retained delete, or accept the loss: courser inspect damage";
    /// There is no user of this name.
    NoUser = 1400, "no_user", NOT_FOUND, "courser user list shows the users that there are";
    /// There is a user of this name already.
    UserExists = 1401, "user_exists", CONFLICT, "courser user set and courser user set-password change a user that is there";
    /// There is no role of this name.
    NoRole = 1402, "no_role", NOT_FOUND, "courser role list shows the roles that there are";
    /// There is a role of this name already.
    RoleExists = 1403, "role_exists", CONFLICT, "courser role set and courser acl grant change a role that is there";
    /// Users have the role.
    RoleInUse = 1404, "role_in_use", CONFLICT, "courser user set NAME --remove-role ROLE takes it from a user";
    /// The role does not have this rule.
    NoRule = 1405, "no_rule", NOT_FOUND, "courser acl list shows the rules of all roles";
    /// Nobody could change users and roles after it.
    LastAdministrator = 1406, "last_administrator", UNPROCESSABLE_ENTITY, "give full administration to another enabled user with a password first";
    /// There would be more than there may be.
    TooMany = 1407, "too_many", UNPROCESSABLE_ENTITY, "docs/limits.md has the limits of users, roles and rules";
    /// Others change users and roles all the time.
    Overtaken = 1408, "overtaken", CONFLICT, "try again";
    /// There is no domain of this name.
    NoDomain = 1409, "no_domain", NOT_FOUND, "courser domain list shows the domains that there are";
    /// Users and roles would take more memory than they may.
    NoRoom = 1410, "no_room_for_accounts", UNPROCESSABLE_ENTITY, "remove users, or give more memory.max: docs/limits.md says how much they take";
    /// The password hash takes more memory than a login may.
    DearHash = 1411, "dear_hash", UNPROCESSABLE_ENTITY, "set the password anew with courser user set-password, or give more memory.max";
    /// The settings are wrong: nothing has changed.
    SettingsWrong = 1500, "settings_wrong", UNPROCESSABLE_ENTITY, "nothing has changed; correct them, and look with courser config check before the next try";
    /// No backup is being made.
    NoBackup = 1600, "no_backup", NOT_FOUND, "courser backup status shows the last one";
    /// A backup is being made: there is one at a time.
    BackupRuns = 1601, "backup_runs", CONFLICT, "courser backup status shows how far it is, courser backup stop ends it";
    /// The folder cannot be used for a backup, or nothing is kept that could be backed up.
    BackupRefused = 1602, "backup_refused", BAD_REQUEST, "name a folder that is empty or has backups of this server, outside of its data folder";
    /// The disk of the log is short of room.
    BackupNoRoom = 1603, "backup_no_room", SERVICE_UNAVAILABLE, "begin it again when /readyz says 200: a backup would keep the log from giving room back";
}

/// After so long whoever finds no room for an answer, or too many that ask, may ask again.
const RETRY_AFTER_SECONDS: u16 = 5;

/// An error as it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    code: Code,
    message: String,
}

/// The body of an answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// Its number, which never changes its meaning.
    pub code: u16,
    /// Its word.
    pub name: String,
    /// What, in this case.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Code {
    /// The code with a number.
    #[must_use]
    pub fn of(number: u16) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| *code as u16 == number)
    }
}

impl ApiError {
    /// An error; the message says what went wrong in this case.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// What kind it is.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }
}

impl From<AskError> for ApiError {
    fn from(error: AskError) -> Self {
        let code = match error {
            AskError::Busy => Code::Busy,
            AskError::Stopped => Code::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: ErrorDetail {
                code: self.code as u16,
                name: self.code.word().to_owned(),
                message: self.message,
                hint: self.code.hint().to_owned(),
            },
        };
        let mut response = (self.code.status(), Json(body)).into_response();
        if self.code == Code::Unauthorized {
            // Not Basic, although it is taken: a browser would ask for a password, and keep it for every page.
            let challenge = HeaderValue::from_static("Bearer realm=\"courser\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        if matches!(self.code, Code::NoMemory | Code::Busy) {
            let seconds = HeaderValue::from(RETRY_AFTER_SECONDS);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_are_unique_and_every_text_is_there() {
        let words: std::collections::BTreeSet<_> = Code::ALL.iter().map(|c| c.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for &code in Code::ALL {
            assert_eq!(Code::of(code as u16), Some(code));
            assert!(code.meaning().ends_with('.'), "{}", code.word());
            assert!(!code.hint().is_empty(), "{}", code.word());
        }
        assert_eq!(Code::of(1), None);
    }
}
