//! Which tokens count, and which claims are looked at.

use std::collections::BTreeSet;

use courser_access::RoleName;
use serde_json::{Map, Value};

use crate::TokenError;

/// What a token must say. Empty lists are said to mean something at each.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Audiences that are us: a token must name one of them. Empty: a token must name none (RFC 7519 section 4.1.3).
    pub audience: Vec<String>,
    /// Issuers that count. Empty: all whose keys we have.
    pub issuers: Vec<String>,
    /// Seconds by which clocks may differ.
    pub leeway_seconds: u64,
    /// The claim that names the user: the name of a claim, or a JSON pointer (RFC 6901), which begins with `/`.
    pub user_claim: String,
    /// The claim that names roles, in the same way: a list of texts, or one text with spaces between names. None: no claim does.
    pub roles_claim: Option<String>,
    /// Roles of everybody who comes with a token.
    pub roles: Vec<RoleName>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            audience: Vec::new(),
            issuers: Vec::new(),
            leeway_seconds: 30,
            user_claim: "sub".to_owned(),
            roles_claim: None,
            roles: Vec::new(),
        }
    }
}

/// Roles that one token can give, besides those that every token gives.
pub(crate) const ROLES_MAX: usize = 64;

impl Policy {
    /// The roles of who comes with these claims, each once, in order. Names that cannot be names of roles are passed over: they are
    /// groups of somebody else.
    ///
    /// # Errors
    /// [`TokenError::Roles`]: any that were left out could be those that deny.
    pub(crate) fn roles_of(
        &self,
        claims: &Map<String, Value>,
    ) -> Result<Vec<RoleName>, TokenError> {
        let claim = self.roles_claim.as_deref().and_then(|it| find(claims, it));
        let names: Vec<&str> = match claim {
            Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                Vec::new()
            }
        };
        let named = names
            .into_iter()
            .filter_map(|name| RoleName::new(name).ok());
        let mut roles: BTreeSet<RoleName> = named.collect();
        if roles.len() > ROLES_MAX {
            return Err(TokenError::Roles);
        }
        roles.extend(self.roles.iter().cloned());
        Ok(roles.into_iter().collect())
    }
}

/// A claim by its name, or by a pointer to where it is.
pub(crate) fn find<'a>(claims: &'a Map<String, Value>, claim: &str) -> Option<&'a Value> {
    let Some(path) = claim.strip_prefix('/') else {
        return claims.get(claim);
    };
    let (first, rest) = path
        .split_once('/')
        .map_or((path, String::new()), |(first, rest)| {
            (first, format!("/{rest}"))
        });
    // Only the first step is not by serde_json, which wants a value and not a map.
    let first = first.replace("~1", "/").replace("~0", "~");
    claims.get(&first)?.pointer(&rest)
}
