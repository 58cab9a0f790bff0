use proptest::prelude::*;

use super::decisions::KEPT_MAX;
use super::*;
use crate::{Command, Domain, DomainName, RetainedLimits, Role, Scope, TopicPattern, User};

fn name(text: &str) -> UserName {
    UserName::new(text).unwrap()
}

fn role_name(text: &str) -> RoleName {
    RoleName::new(text).unwrap()
}

fn table(roles: &[(&str, &[&str])]) -> Table {
    let mut table = Table::default();
    for (role, rules) in roles {
        let role_of = Role {
            rules: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
            ..Role::default()
        };
        table.apply(&Command::PutRole(role_name(role), role_of));
    }
    let anna = User {
        roles: roles.iter().map(|(role, _)| role_name(role)).collect(),
        ..User::default()
    };
    table.apply(&Command::PutUser(name("anna"), anna));
    table
}

fn rights(table: &Table) -> Rights {
    Rights::new(table, Identity::new("c1", name("anna")))
}

#[test]
fn cve_2018_12550_without_rules_nothing_is_allowed() {
    for table in [table(&[]), table(&[("empty", &[])]), Table::default()] {
        let mut rights = rights(&table);
        assert_eq!(rights.may_publish("a"), Verdict::Denied);
        assert_eq!(rights.may_receive("a"), Verdict::Denied);
        assert_eq!(rights.may_subscribe("#", Sharing::Own), Verdict::Denied);
    }
}

#[test]
fn a_denying_rule_counts_wherever_it_stands() {
    let roles: [&[(&str, &[&str])]; 3] = [
        &[("a", &["allow all x/#", "deny publish x/y"])],
        &[("a", &["deny publish x/y", "allow all x/#"])],
        &[("a", &["allow all x/#"]), ("b", &["deny publish x/y"])],
    ];
    for roles in roles {
        let mut rights = rights(&table(roles));
        assert_eq!(rights.may_publish("x/y"), Verdict::Denied);
        assert_eq!(rights.may_publish("x/z"), Verdict::Allowed);
        assert_eq!(rights.may_receive("x/y"), Verdict::Allowed);
        assert_eq!(rights.may_receive("z"), Verdict::Denied);
    }
}

#[test]
fn decisions_name_their_rule() {
    let rules: &[&str] = &["allow publish %c/#", "deny all %c/secret"];
    let rights = rights(&table(&[("device", rules)]));
    let says = |decision: Decision| decision.to_string();
    assert_eq!(
        says(rights.explain_publish("c1/t")),
        "allowed by rule 1 of role device: allow publish %c/#"
    );
    assert_eq!(
        says(rights.explain_publish("c1/secret")),
        "denied by rule 2 of role device: deny all %c/secret"
    );
    assert_eq!(
        says(rights.explain_receive("c1/t")),
        "denied: no rule allows it"
    );
    let nobody = Rights::new(&Table::default(), Identity::new("c", name("x")));
    assert_eq!(
        says(nobody.explain_publish("a")),
        "denied: there is no such user"
    );
}

#[test]
fn a_subscription_needs_one_rule_that_covers_it_all() {
    let rules: &[&str] = &["allow subscribe a/#", "deny subscribe a/secret/#"];
    let mut rights = rights(&table(&[("r", rules)]));
    use Sharing::{Own, Shared};
    for (filter, own, shared) in [
        ("a/#", true, false),
        ("a/+", true, false),
        ("a/b", true, true),
        ("a/secret/x", false, false),
        ("a/secret/#", false, false),
        ("#", false, false),
        ("b", false, false),
    ] {
        assert_eq!(
            rights.may_subscribe(filter, Own).is_allowed(),
            own,
            "{filter}"
        );
        assert_eq!(
            rights.may_subscribe(filter, Shared).is_allowed(),
            shared,
            "{filter} shared"
        );
    }
    assert_eq!(
        rights.may_receive("a/secret/x"),
        Verdict::Denied,
        "not delivered by a/# either"
    );
}

#[test]
fn users_that_are_gone_changed_or_disabled_are_not_valid_any_more() {
    let mut table = table(&[("r", &["allow all #"])]);
    let before = rights(&table);
    assert_eq!(before.standing_in(&table), Standing::Valid);
    table.apply(&Command::PutRole(role_name("r"), Role::default()));
    assert_eq!(
        before.standing_in(&table),
        Standing::Valid,
        "its rights are others, it is the same"
    );
    assert_eq!(before.renewed(&table).may_publish("a"), Verdict::Denied);
    let disabled = User {
        state: UserState::Disabled,
        ..User::default()
    };
    let mut without = table.clone();
    without.apply(&Command::PutUser(name("anna"), disabled));
    assert_eq!(before.standing_in(&without), Standing::Disabled);
    assert_eq!(
        before.renewed(&without).explain_publish("a"),
        Decision::Disabled
    );
    without.apply(&Command::PutUser(name("anna"), User::default()));
    assert_eq!(
        before.standing_in(&without),
        Standing::OtherCredentials,
        "enabled again: it logs in again"
    );
    table.apply(&Command::RemoveUser(name("anna")));
    assert_eq!(before.standing_in(&table), Standing::NoUser);
}

#[test]
fn a_token_gives_roles_beside_those_of_the_table() {
    let mut table = table(&[
        ("own", &["allow publish own/%u"]),
        (
            "given",
            &["allow publish given/%c", "deny publish given/no"],
        ),
    ]);
    let mut anna = User::default();
    anna.roles.insert(role_name("own"));
    table.apply(&Command::PutUser(name("anna"), anna.clone()));
    let by_token = |user: &str, roles: &[&str]| {
        let granted: Vec<_> = roles.iter().map(|role| role_name(role)).collect();
        let principal = Principal {
            user: name(user),
            granted: Some(granted.into()),
        };
        Identity::new("c1", principal)
    };
    for (user, roles, topic, expected) in [
        ("anna", &["given", "own"][..], "own/anna", Verdict::Allowed),
        ("anna", &["given", "own"], "given/c1", Verdict::Allowed),
        ("anna", &["given"], "given/no", Verdict::Denied),
        ("anna", &[], "given/c1", Verdict::Denied),
        ("anna", &[], "own/anna", Verdict::Allowed),
        ("ben", &["given"], "given/c1", Verdict::Allowed),
        ("ben", &["own"], "own/anna", Verdict::Denied),
        ("ben", &["nothing"], "given/c1", Verdict::Denied),
        ("ben", &[], "own/ben", Verdict::Denied),
    ] {
        let rights = Rights::new(&table, by_token(user, roles));
        assert_eq!(
            rights.explain_publish(topic).verdict(),
            expected,
            "{user} {roles:?} {topic}"
        );
    }
    let ben = Rights::new(&table, by_token("ben", &["given"]));
    let mine = Rights::new(&table, by_token("anna", &["given"]));
    assert_eq!(
        ben.standing_in(&table),
        Standing::Valid,
        "it is in no table"
    );
    anna.state = UserState::Disabled;
    table.apply(&Command::PutUser(name("anna"), anna));
    assert_eq!(mine.standing_in(&table), Standing::Disabled);
    let shut_out = mine.renewed(&table);
    assert_eq!(shut_out.explain_publish("given/c1"), Decision::Disabled);
    table.apply(&Command::RemoveUser(name("anna")));
    assert_eq!(mine.standing_in(&table), Standing::Valid);
}

#[test]
fn limits_of_roles_that_a_token_gives_count() {
    let mut table = table(&[]);
    let limits = Limits {
        subscriptions: Some(3),
        ..Limits::default()
    };
    let role = Role {
        limits,
        ..Role::default()
    };
    table.apply(&Command::PutRole(role_name("few"), role));
    let principal = Principal {
        user: name("ben"),
        granted: Some([role_name("few")].into()),
    };
    assert_eq!(principal.limits(&table), limits);
    let rights = Rights::new(&table, Identity::new("c1", principal));
    assert_eq!(rights.limits(), limits);
}

/// Who is nearer to the client says more, each limit by itself; of several roles the strictest counts.
#[test]
fn a_user_goes_before_its_roles_and_they_before_the_domain() {
    let limits = |subscriptions, in_flight, queued_messages| Limits {
        subscriptions,
        in_flight,
        queued_messages,
        ..Limits::default()
    };
    let mut table = table(&[]);
    for (role, limits) in [
        ("gateway", limits(Some(500), Some(50), None)),
        ("strict", limits(Some(400), None, None)),
    ] {
        let role = (
            role_name(role),
            Role {
                limits,
                ..Role::default()
            },
        );
        table.apply(&Command::PutRole(role.0, role.1));
    }
    let domain = Domain {
        limits: limits(Some(10), Some(10), Some(10)),
        retained: RetainedLimits {
            messages: Some(7),
            bytes: Some(700),
        },
    };
    table.apply(&Command::PutDomain(DomainName::Default, domain));
    let put = |table: &mut Table, user: &str, roles: &[&str], limits| {
        let user = (
            name(user),
            User {
                roles: roles.iter().map(|role| role_name(role)).collect(),
                limits,
                ..User::default()
            },
        );
        table.apply(&Command::PutUser(user.0, user.1));
    };
    put(&mut table, "plain", &[], Limits::default());
    put(
        &mut table,
        "roles",
        &["gateway", "strict"],
        Limits::default(),
    );
    put(
        &mut table,
        "own",
        &["gateway", "strict"],
        limits(Some(900), None, Some(1)),
    );
    for (user, expected) in [
        ("plain", limits(Some(10), Some(10), Some(10))),
        ("nobody", limits(Some(10), Some(10), Some(10))),
        ("roles", limits(Some(400), Some(50), Some(10))),
        ("own", limits(Some(900), Some(50), Some(1))),
    ] {
        assert_eq!(table.limits(user), expected, "{user}");
    }
    let back = Table::decode(&table.encode()).unwrap();
    assert_eq!(back, table, "a checkpoint has all of it");
    let as_json = serde_json::to_string(&table).unwrap();
    let mut imported = Table::default();
    let replace = Command::Replace(Box::new(serde_json::from_str(&as_json).unwrap()));
    imported.apply(&Command::decode(&replace.encode()).unwrap());
    assert_eq!(imported.limits("own"), table.limits("own"));
    assert_eq!(imported.retained(), domain.retained);
    table.apply(&Command::PutDomain(DomainName::Default, Domain::default()));
    assert_eq!(table.limits("plain"), Limits::default());
    let kept = Table::decode(&table.encode()).unwrap();
    assert!(kept.domains.is_empty(), "as it was made it is not kept");
}

#[test]
fn what_is_kept_is_bounded() {
    let mut rights = rights(&table(&[("r", &["allow publish #"])]));
    for number in 0..10_000 {
        let topic = format!("t/{number}");
        assert!(rights.may_publish(&topic).is_allowed());
        let hash = TopicHash::of(&topic);
        let kept = rights.kept.get(hash, Deed::Publish);
        assert_eq!(kept, Some(Verdict::Allowed), "{topic}");
        assert_eq!(rights.kept.get(hash, Deed::Receive), None, "not asked for");
        let expected = KEPT_MAX.min(number + 1);
        let both = (rights.kept.len(), rights.kept.places());
        assert_eq!(both, (expected, expected));
    }
    rights.forget_decisions();
    assert_eq!((rights.kept.len(), rights.kept.places()), (0, 0));
    assert!(rights.may_publish("t/9999").is_allowed());
}

/// Each topic that is new takes the place of one other topic, and not of all.
#[test]
fn some_more_topics_than_are_kept_are_mostly_found_when_they_come_in_turn() {
    let mut rights = rights(&table(&[("r", &["allow publish #"])]));
    let topics: Vec<String> = (0..70).map(|number| format!("t/{number}")).collect();
    let mut found = 0;
    for _ in 0..100 {
        for topic in &topics {
            let kept = rights.kept.get(TopicHash::of(topic), Deed::Publish);
            found += usize::from(kept.is_some());
            rights.may_publish(topic);
        }
    }
    assert!(found > 100 * topics.len() / 2, "{found} of 7,000");
}

/// Texts that are nearly the same, one inside the other, or longer than topics mostly are.
#[test]
fn decisions_of_topics_that_look_alike_are_kept_apart() {
    let rules: &[&str] = &["allow publish a/#", "deny publish a/b", "allow publish /"];
    let mut rights = rights(&table(&[("r", rules)]));
    let long = format!("a/{}", "x".repeat(60_000));
    for (topic, expected) in [
        ("a", Verdict::Allowed),
        ("a/", Verdict::Allowed),
        ("a/b", Verdict::Denied),
        ("a/b/", Verdict::Allowed),
        ("/", Verdict::Allowed),
        ("//", Verdict::Denied),
        (&long, Verdict::Allowed),
        (&long[2..], Verdict::Denied),
    ]
    .repeat(2)
    {
        assert_eq!(rights.may_publish(topic), expected, "{topic:.9}");
    }
}

fn some_rule() -> impl Strategy<Value = String> {
    let words = (
        proptest::sample::select(&["allow", "allow", "deny"][..]),
        proptest::sample::select(&["publish", "subscribe", "all"][..]),
        proptest::sample::select(
            &[
                "#", "a/#", "a/+", "+/b", "%c/b", "%u/#", "a/b", "$SYS/#", "+/%c",
            ][..],
        ),
    );
    words.prop_map(|(effect, action, topic)| format!("{effect} {action} {topic}"))
}

/// Naive: every rule of every role, nothing kept, by the texts.
fn reference(table: &Table, deed: Deed, topic: &str) -> bool {
    let who = Identity::new("c1", name("anna"));
    let user = table.user("anna").unwrap();
    let rules: Vec<&Rule> = user
        .roles
        .iter()
        .flat_map(|role| &table.role(role.as_str()).unwrap().rules)
        .collect();
    let any = |effect: Effect| {
        rules.iter().any(|rule| {
            let about = match deed {
                Deed::Publish => rule.action != Scope::Subscribe,
                Deed::Receive => rule.action != Scope::Publish,
            };
            let plain = rule
                .topic
                .to_string()
                .replace("%c", "c1")
                .replace("%u", "anna");
            let plain: TopicPattern = plain.parse().unwrap();
            rule.effect == effect && about && plain.matches(topic, &who)
        })
    };
    any(Effect::Allow) && !any(Effect::Deny)
}

proptest! {
    #[test]
    fn i11_rights_agree_with_the_reference_however_often_they_are_asked(
        first in proptest::collection::vec(some_rule(), 0..4),
        second in proptest::collection::vec(some_rule(), 0..4),
        topics in proptest::collection::vec(
            proptest::sample::select(&["a", "a/b", "c1/b", "anna/x", "x/c1", "$SYS/x", "z"][..]), 1..30),
    ) {
        let first: Vec<&str> = first.iter().map(|rule| &**rule).collect();
        let second: Vec<&str> = second.iter().map(|rule| &**rule).collect();
        let table = table(&[("one", &first), ("two", &second)]);
        let mut rights = rights(&table);
        for topic in topics {
            let publish = reference(&table, Deed::Publish, topic);
            let receive = reference(&table, Deed::Receive, topic);
            prop_assert_eq!(rights.may_publish(topic).is_allowed(), publish);
            prop_assert_eq!(rights.may_receive(topic).is_allowed(), receive);
            prop_assert_eq!(rights.explain_publish(topic).verdict().is_allowed(), publish);
            prop_assert_eq!(rights.explain_receive(topic).verdict().is_allowed(), receive);
            // Who may subscribe to a topic by itself gets it; a wildcard is never needed for that.
            prop_assert_eq!(rights.may_subscribe(topic, Sharing::Own).is_allowed(), receive);
            prop_assert_eq!(rights.may_subscribe(topic, Sharing::Shared).is_allowed(), receive);
        }
    }
}

/// The first denying rule that speaks of it, else the first allowing one, found by a look at each rule of each role.
fn one_rule_after_the_other(
    rights: &Rights,
    deed: Deed,
    speaks: impl Fn(&Rule) -> bool,
) -> Decision {
    let mut allowing = None;
    for (name, role) in rights.roles.iter().flatten() {
        for (rule, number) in role.role().rules.iter().zip(1..) {
            if !rule.action.is_about(deed) || !speaks(rule) {
                continue;
            }
            let found = Decision::ByRule {
                role: name.clone(),
                number,
                rule: rule.clone(),
            };
            match rule.effect {
                Effect::Deny => return found,
                Effect::Allow => allowing = allowing.or(Some(found)),
            }
        }
    }
    allowing.unwrap_or(Decision::NoRule)
}

/// Of few words, so that many rules begin alike.
fn deep(words: &'static [&'static str], levels: usize) -> impl Strategy<Value = String> {
    let front = proptest::collection::vec(proptest::sample::select(words), 0..=levels);
    (front, any::<bool>())
        .prop_map(|(mut levels, hash)| {
            if hash || levels.is_empty() {
                levels.push("#");
            }
            levels.join("/")
        })
        .prop_filter("an empty one is none", |text| !text.is_empty())
}

fn many_rules() -> impl Strategy<Value = Vec<String>> {
    const WORDS: &[&str] = &[
        "a", "a", "b", "b", "", "c1", "anna", "$SYS", "%c", "%u", "+", "+",
    ];
    let rule = (
        proptest::bool::weighted(0.3),
        proptest::sample::select(&["publish", "subscribe", "all"][..]),
        deep(WORDS, 4),
    );
    let text = |(denies, action, topic): (bool, &str, String)| {
        let effect = if denies { "deny" } else { "allow" };
        format!("{effect} {action} {topic}")
    };
    proptest::collection::vec(rule.prop_map(text), 0..80)
}

const OF_FILTERS: &[&str] = &["a", "a", "b", "b", "", "c1", "anna", "$SYS", "+", "x"];
const OF_TOPICS: &[&str] = &["a", "a", "b", "b", "", "c1", "anna", "$SYS", "x"];

proptest! {
    /// Which rule it is, too: `acl test` names it.
    #[test]
    fn i11_the_rule_that_decides_is_found_as_if_each_was_looked_at(
        first in many_rules(),
        second in many_rules(),
        client_id in proptest::sample::select(&["c1", "c1", "anna", "", "a/b", "+", "$SYS"][..]),
        topics in proptest::collection::vec(
            proptest::collection::vec(proptest::sample::select(OF_TOPICS), 1..6), 30),
        filters in proptest::collection::vec(deep(OF_FILTERS, 4), 30),
    ) {
        let [one, two] = [&first, &second].map(|rules| rules.iter().map(|rule| &**rule).collect::<Vec<_>>());
        let rights = Rights::new(&table(&[("one", &one), ("two", &two)]), Identity::new(client_id, name("anna")));
        let who = &rights.who;
        for (_, role) in rights.roles.iter().flatten() {
            for effect in [Effect::Deny, Effect::Allow] {
                role.index(effect).check(&role.role().rules, effect);
            }
        }
        for topic in topics.iter().map(|levels| levels.join("/")) {
            for (deed, found) in [
                (Deed::Publish, rights.explain_publish(&topic)),
                (Deed::Receive, rights.explain_receive(&topic)),
            ] {
                let expected = one_rule_after_the_other(&rights, deed, |rule| rule.topic.matches(&topic, who));
                prop_assert_eq!(found, expected, "{:?} {:?}", deed, topic);
            }
        }
        for filter in &filters {
            for sharing in [Sharing::Own, Sharing::Shared] {
                let expected = one_rule_after_the_other(&rights, Deed::Receive, |rule| match (rule.effect, sharing) {
                    (Effect::Deny, Sharing::Shared) => rule.topic.overlaps(filter, who),
                    _ => rule.topic.covers(filter, who),
                });
                prop_assert_eq!(rights.explain_subscribe(filter, sharing), expected, "{:?} {:?}", filter, sharing);
            }
        }
    }
}
