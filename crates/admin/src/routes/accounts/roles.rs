//! Roles, their rules, and what they decide.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::{Extension, Json};
use courser_access::{
    self as access, Command, Identity, Principal, Rights, Role, RoleName, Sharing, Table,
};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{bad, change, convert, parameters, table};
use crate::AppState;
use crate::access::Principal as Operator;
use crate::api::{self, Changed, Decision, Done, NewRole, RoleChange};
use crate::error::{ApiError, Code, ErrorBody};
use crate::list::{List, ListParams, ListQuery, list_here};
use crate::routes::body::{How, Named, Sent};
use crate::routes::done;
use crate::routes::topics::{check_filter, check_name};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(roles, add))
        .routes(routes!(role, set, remove))
        .routes(routes!(rules))
        .routes(routes!(test))
}

fn find<'a>(table: &'a Table, name: &RoleName) -> Result<&'a Role, ApiError> {
    let unknown = || ApiError::new(Code::NoRole, format!("there is no role {name}"));
    table.role(name.as_str()).ok_or_else(unknown)
}

/// Roles, by name.
#[utoipa::path(get, path = "/api/v1/roles", params(ListParams), responses((status = 200, body = List<api::Role>), (status = 400, body = ErrorBody)))]
async fn roles(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<List<api::Role>>, ApiError> {
    let query = ListQuery::read::<api::Role>(parameters, &[])?;
    let table = table(&state)?;
    let rows = table
        .roles()
        .map(|(name, role)| (name.as_str(), move || convert::role(name, role)));
    Ok(Json(list_here(&state.control, &query, rows).await?))
}

/// A role.
#[utoipa::path(get, path = "/api/v1/roles/{name}", params(("name" = String, Path, description = "Name of the role")), responses((status = 200, body = api::Role), (status = 404, body = ErrorBody)))]
async fn role(
    State(state): State<AppState>,
    Named(name): Named,
) -> Result<Json<api::Role>, ApiError> {
    let name = convert::role_name(&name)?;
    let table = table(&state)?;
    Ok(Json(convert::role(&name, find(&table, &name)?)))
}

/// Makes a role.
#[utoipa::path(post, path = "/api/v1/roles", request_body = NewRole, responses((status = 200, body = Done), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn add(
    State(state): State<AppState>,
    Extension(principal): Extension<Operator>,
    Sent(asked): Sent<NewRole>,
) -> Result<Json<Done>, ApiError> {
    let name = convert::role_name(&asked.name)?;
    let rules = asked.rules.iter().map(|rule| convert::rule(rule));
    let role = Role {
        rules: rules.collect::<Result<_, _>>()?,
        administration: convert::administration(asked.administration),
        limits: convert::limits(Default::default(), &asked.limits)?,
    };
    change(&state, How::default(), |table| {
        if table.role(name.as_str()).is_some() {
            let message = format!("there is a role {name} already");
            return Err(ApiError::new(Code::RoleExists, message));
        }
        Ok((Some(Command::PutRole(name.clone(), role.clone())), ()))
    })
    .await?;
    tracing::info!(
        event = "role_added",
        by = principal.name,
        role = name.as_str(),
        "an operator made a role"
    );
    Ok(done("added", &name))
}

/// Changes rules, administration and limits of a role. A right that is gone counts at the next message of everybody who has the role.
#[utoipa::path(patch, path = "/api/v1/roles/{name}", params(("name" = String, Path, description = "Name of the role"), How), request_body = RoleChange, responses((status = 200, body = Changed), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn set(
    State(state): State<AppState>,
    Extension(principal): Extension<Operator>,
    Named(name): Named,
    how: How,
    Sent(asked): Sent<RoleChange>,
) -> Result<Json<Changed>, ApiError> {
    let name = convert::role_name(&name)?;
    let changed = change(&state, how, |table| {
        let before = find(table, &name)?;
        let after = changed(before, &name, &asked)?;
        let [was, is] = [before, &after].map(|role| convert::role(&name, role));
        let command = (after != *before).then(|| Command::PutRole(name.clone(), after));
        Ok((command, convert::changed(how, &name, (was, is))))
    })
    .await?;
    if how.dry_run {
        return Ok(Json(changed));
    }
    tracing::info!(
        event = "role_changed",
        by = principal.name,
        role = name.as_str(),
        "an operator changed a role"
    );
    Ok(Json(changed))
}

fn changed(before: &Role, name: &RoleName, asked: &RoleChange) -> Result<Role, ApiError> {
    let mut role = before.clone();
    if let Some(administration) = asked.administration {
        role.administration = convert::administration(administration);
    }
    for text in &asked.remove_rules {
        let rule = convert::rule(text)?;
        let left = role.rules.len();
        role.rules.retain(|it| *it != rule);
        if role.rules.len() == left {
            let message = format!("role {name} has no rule {rule}");
            return Err(ApiError::new(Code::NoRule, message));
        }
    }
    for text in &asked.add_rules {
        let rule = convert::rule(text)?;
        if !role.rules.contains(&rule) {
            role.rules.push(rule);
        }
    }
    role.limits = convert::limits(role.limits, &asked.limits)?;
    Ok(role)
}

/// Removes a role that no user has.
#[utoipa::path(delete, path = "/api/v1/roles/{name}", params(("name" = String, Path, description = "Name of the role"), How), responses((status = 200, body = Done), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn remove(
    State(state): State<AppState>,
    Extension(principal): Extension<Operator>,
    Named(name): Named,
    how: How,
) -> Result<Json<Done>, ApiError> {
    let name = convert::role_name(&name)?;
    change(&state, how, |table| {
        find(table, &name)?;
        Ok((Some(Command::RemoveRole(name.clone())), ()))
    })
    .await?;
    if how.dry_run {
        return Ok(done("would remove", &name));
    }
    tracing::info!(
        event = "role_removed",
        by = principal.name,
        role = name.as_str(),
        "an operator removed a role"
    );
    Ok(done("removed", &name))
}

/// Rules of all roles.
#[utoipa::path(get, path = "/api/v1/rules", params(ListParams), responses((status = 200, body = List<api::Rule>), (status = 400, body = ErrorBody)))]
async fn rules(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<List<api::Rule>>, ApiError> {
    let query = ListQuery::read::<api::Rule>(parameters, &[])?;
    let table = table(&state)?;
    let mut rows = Vec::new();
    for (name, role) in table.roles() {
        for (rule, number) in role.rules.iter().zip(1..) {
            let id = format!("{name}\0{number:04}");
            rows.push((id, move || convert::rule_of(name, number, rule)));
        }
    }
    Ok(Json(
        list_here(&state.control, &query, rows.into_iter()).await?,
    ))
}

/// What is asked about a right. One of `publish`, `subscribe`, `subscribe_shared` and `receive`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Question {
    /// The user.
    user: String,
    /// Roles that a token names, with commas between them: the user may then be one that is nowhere but in tokens.
    roles: Option<String>,
    /// The client id that `%c` stands for; none: no rule with `%c` matches.
    #[serde(default)]
    client_id: String,
    /// Publishing to this topic.
    publish: Option<String>,
    /// Subscribing to this filter.
    subscribe: Option<String>,
    /// Subscribing to this filter with others; without `$share/NAME/`.
    subscribe_shared: Option<String>,
    /// Getting messages of this topic.
    receive: Option<String>,
}

/// Whose rights are asked about.
fn who(table: &Table, question: &Question) -> Result<Principal, ApiError> {
    let user = convert::user_name(&question.user)?;
    let Some(roles) = &question.roles else {
        return match table.user(user.as_str()) {
            Some(_) => Ok(user.into()),
            None => Err(ApiError::new(
                Code::NoUser,
                format!("there is no user {user}"),
            )),
        };
    };
    let role = |name| {
        let name = convert::role_name(name)?;
        find(table, &name)?;
        Ok(name)
    };
    let granted: Result<_, ApiError> = roles.split(',').map(role).collect();
    Ok(Principal {
        user,
        granted: Some(granted?),
    })
}

/// Whether a user may do something, and which rule says so.
#[utoipa::path(get, path = "/api/v1/access/test", params(Question), responses((status = 200, body = Decision), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn test(
    State(state): State<AppState>,
    question: Result<Query<Question>, QueryRejection>,
) -> Result<Json<Decision>, ApiError> {
    let question = parameters(question)?;
    let table = table(&state)?;
    let who = who(&table, &question)?;
    let asked = question.asked()?;
    let rights = Rights::new(&table, Identity::new(&question.client_id, who.clone()));
    let decision = asked.of(&rights);
    let mut answer = convert::decision(&decision);
    let passed_over = match question.client_id.is_empty() {
        true => asked.passed_over(&table, &who, &decision),
        false => None,
    };
    if let Some(rule) = passed_over {
        answer.reason.push_str(&rule);
    }
    Ok(Json(answer))
}

/// What somebody wants to do.
#[derive(Clone, Copy)]
enum Asked<'q> {
    Publish(&'q str),
    Subscribe(&'q str, Sharing),
    Receive(&'q str),
}

impl Question {
    fn asked(&self) -> Result<Asked<'_>, ApiError> {
        let asked = (
            self.publish.as_deref(),
            self.subscribe.as_deref(),
            self.subscribe_shared.as_deref(),
            self.receive.as_deref(),
        );
        match asked {
            (Some(topic), None, None, None) => {
                check_name("publish", topic)?;
                Ok(Asked::Publish(topic))
            }
            (None, Some(filter), None, None) => {
                check_filter("subscribe", filter)?;
                Ok(Asked::Subscribe(filter, Sharing::Own))
            }
            (None, None, Some(filter), None) => {
                check_filter("subscribe_shared", filter)?;
                Ok(Asked::Subscribe(filter, Sharing::Shared))
            }
            (None, None, None, Some(topic)) => {
                check_name("receive", topic)?;
                Ok(Asked::Receive(topic))
            }
            _ => Err(bad(
                "one of publish, subscribe, subscribe_shared and receive is to be said",
            )),
        }
    }
}

/// Levels of a topic that are tried as client ids: a rule has no more.
const LEVELS_TRIED_MAX: usize = 128;
/// A client id that is no level of the topic.
const ANY_CLIENT: &str = "client";

impl Asked<'_> {
    fn of(self, rights: &Rights) -> access::Decision {
        match self {
            Self::Publish(topic) => rights.explain_publish(topic),
            Self::Subscribe(filter, sharing) => rights.explain_subscribe(filter, sharing),
            Self::Receive(topic) => rights.explain_receive(topic),
        }
    }

    /// A rule with `%c` that decides for some client id, where none was said: `%c` stands for nothing then. Only what is a level of the topic
    /// can make it speak of it.
    fn passed_over(
        self,
        table: &Table,
        who: &Principal,
        decision: &access::Decision,
    ) -> Option<String> {
        let (Self::Publish(topic) | Self::Subscribe(topic, _) | Self::Receive(topic)) = self;
        let levels = topic.split('/').take(LEVELS_TRIED_MAX);
        levels.chain([ANY_CLIENT]).find_map(|client_id| {
            let rights = Rights::new(table, Identity::new(client_id, who.clone()));
            match self.of(&rights) {
                other if other == *decision => None,
                access::Decision::ByRule { role, number, rule } => Some(format!(
                    "; passed over, since no client id is said: rule {number} of role {role}: {rule}"
                )),
                access::Decision::NoRule
                | access::Decision::NoUser
                | access::Decision::Disabled => None,
            }
        })
    }
}
