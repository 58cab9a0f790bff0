//! I11: what the program decides is what a naive evaluator decides, for random users, roles, rules and topics.

#[allow(unreachable_pub, reason = "tests of a running broker use it too")]
mod naive;

use std::sync::{Arc, LazyLock};

use courser_access::{
    Command, Identity, Principal, Rights, Role, RoleName, Sharing, Table, User, UserName, UserState,
};
use naive::{Rule, Who, Wish};
use proptest::prelude::*;

/// Levels of topics: ordinary ones, an empty one, and every name that a placeholder may stand for.
const LEVELS: [&str; 7] = ["a", "b", "", "c1", "anna", "$SYS", "$c"];
const DEPTH: usize = 4;

/// All topics: patterns and filters have three levels at most, so that one level more tells `#` from what is not.
static WORLD: LazyLock<Vec<String>> = LazyLock::new(|| naive::world(&LEVELS, DEPTH));

/// A pattern of one to three levels, which may end with `#`; in filters of clients a placeholder is a word like any other.
fn pattern(levels: &'static [&'static str]) -> impl Strategy<Value = String> {
    let front = prop::collection::vec(prop::sample::select(levels), 0..=3);
    (front, any::<bool>())
        .prop_map(|(mut levels, hash)| {
            if hash || levels.is_empty() {
                levels.truncate(2);
                levels.push("#");
            }
            levels.join("/")
        })
        .prop_filter("an empty one is none", |text| !text.is_empty())
}

const OF_RULES: &[&str] = &[
    "a", "b", "", "c1", "anna", "$SYS", "%c", "%c", "%u", "+", "+",
];
const OF_FILTERS: &[&str] = &["a", "b", "", "c1", "anna", "$SYS", "$c", "+", "+"];

fn rule() -> impl Strategy<Value = Rule> {
    let parts = (
        prop::bool::weighted(0.65),
        prop::sample::select(&["publish", "subscribe", "all"][..]),
        pattern(OF_RULES),
    );
    parts.prop_map(|(allows, action, pattern)| Rule {
        allows,
        action,
        pattern,
    })
}

/// Where a role of a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Table,
    Token,
    Both,
    /// Somebody else has it.
    Nowhere,
}

#[derive(Clone, Debug)]
struct Setting {
    client_id: &'static str,
    user: &'static str,
    /// None: the table has no such user.
    state: Option<UserState>,
    by_token: bool,
    roles: Vec<(Vec<Rule>, From)>,
}

fn setting() -> impl Strategy<Value = Setting> {
    let from = prop::sample::select(
        &[
            From::Table,
            From::Table,
            From::Token,
            From::Both,
            From::Nowhere,
        ][..],
    );
    let states = [
        Some(UserState::Enabled),
        Some(UserState::Enabled),
        Some(UserState::Enabled),
        Some(UserState::Disabled),
        None,
    ];
    let parts = (
        prop::sample::select(&["c1", "c1", "anna", "", "a/b", "+", "#", "$c"][..]),
        prop::sample::select(&["anna", "anna", "c1", "$SYS"][..]),
        prop::sample::select(states.to_vec()),
        prop::bool::weighted(0.3),
        prop::collection::vec((prop::collection::vec(rule(), 0..4), from), 0..4),
    );
    parts.prop_map(|(client_id, user, state, by_token, roles)| Setting {
        client_id,
        user,
        state,
        by_token,
        roles,
    })
}

fn role_name(number: usize) -> RoleName {
    RoleName::new(&format!("role-{number}")).expect("a role name")
}

impl Setting {
    /// As commands make it.
    fn table(&self) -> Table {
        let mut table = Table::default();
        for (number, (rules, _)) in self.roles.iter().enumerate() {
            let rules = rules
                .iter()
                .map(|rule| rule.text().parse().expect("a rule"));
            let role = Role {
                rules: rules.collect(),
                ..Role::default()
            };
            table.apply(&Command::PutRole(role_name(number), role));
        }
        let with = |wanted: &[From]| User {
            roles: self.names(wanted).collect(),
            ..User::default()
        };
        let somebody_else = UserName::new("other").expect("a user name");
        table.apply(&Command::PutUser(somebody_else, with(&[From::Nowhere])));
        if let Some(state) = self.state {
            let user = User {
                state,
                ..with(&[From::Table, From::Both])
            };
            let name = UserName::new(self.user).expect("a user name");
            table.apply(&Command::PutUser(name, user));
        }
        table
    }

    fn names(&self, wanted: &[From]) -> impl Iterator<Item = RoleName> {
        let numbers =
            (0..self.roles.len()).filter(|&number| wanted.contains(&self.roles[number].1));
        numbers.map(role_name)
    }

    fn identity(&self) -> Identity {
        let granted: Arc<[RoleName]> = self.names(&[From::Token, From::Both]).collect();
        let principal = Principal {
            user: UserName::new(self.user).expect("a user name"),
            granted: self.by_token.then_some(granted),
        };
        Identity::new(self.client_id, principal)
    }

    /// For the naive evaluator: the rules that count.
    fn who(&self) -> Who {
        let counts = |from: From| {
            let by_table = matches!(from, From::Table | From::Both) && self.state.is_some();
            let by_token = matches!(from, From::Token | From::Both) && self.by_token;
            by_table || by_token
        };
        let is_here = match self.state {
            Some(state) => state == UserState::Enabled,
            None => self.by_token,
        };
        let rules = self
            .roles
            .iter()
            .filter(|(_, from)| is_here && counts(*from));
        Who {
            client_id: self.client_id.to_owned(),
            user: self.user.to_owned(),
            rules: rules.flat_map(|(rules, _)| rules.clone()).collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn i11_publish_receive_and_subscribe_are_what_the_words_say(
        setting in setting(),
        asked in prop::collection::vec(any::<prop::sample::Index>(), 40),
        filters in prop::collection::vec(pattern(OF_FILTERS), 6),
    ) {
        let who = setting.who();
        let mut rights = Rights::new(&setting.table(), setting.identity());
        // Some of them twice: what is kept is what was decided.
        for topic in asked.iter().chain(&asked[..10]).map(|at| at.get(&WORLD)) {
            let publish = who.may(Wish::Publish, topic);
            let receive = who.may(Wish::Receive, topic);
            prop_assert_eq!(rights.may_publish(topic).is_allowed(), publish, "publish {}", topic);
            prop_assert_eq!(rights.may_receive(topic).is_allowed(), receive, "receive {}", topic);
            prop_assert_eq!(rights.explain_publish(topic).verdict().is_allowed(), publish);
            prop_assert_eq!(rights.explain_receive(topic).verdict().is_allowed(), receive);
        }
        for filter in filters {
            for (shared, sharing) in [(false, Sharing::Own), (true, Sharing::Shared)] {
                let expected = who.may_subscribe(&filter, shared, &WORLD);
                let found = rights.may_subscribe(&filter, sharing).is_allowed();
                prop_assert_eq!(found, expected, "{:?} {:?}", filter, sharing);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Somebody who is there while the table changes: what was decided and kept before says nothing any more, of their own
    /// subscriptions and as members of groups.
    #[test]
    fn i11_rights_that_change_are_those_of_the_new_table(
        before in setting(),
        after in setting(),
        asked in prop::collection::vec(any::<prop::sample::Index>(), 20),
        filters in prop::collection::vec(pattern(OF_FILTERS), 3),
    ) {
        let before = Setting { by_token: false, ..before };
        let Setting { client_id, user, .. } = before;
        let after = Setting { by_token: false, client_id, user, ..after };
        let mut rights = Rights::new(&before.table(), before.identity());
        for setting in [&before, &after, &before] {
            rights = rights.renewed(&setting.table());
            let who = setting.who();
            for topic in asked.iter().map(|at| at.get(&WORLD)) {
                let (publish, receive) = (who.may(Wish::Publish, topic), who.may(Wish::Receive, topic));
                prop_assert_eq!(rights.may_publish(topic).is_allowed(), publish, "publish {}", topic);
                prop_assert_eq!(rights.may_receive(topic).is_allowed(), receive, "receive {}", topic);
            }
            for filter in &filters {
                for (shared, sharing) in [(false, Sharing::Own), (true, Sharing::Shared)] {
                    let expected = who.may_subscribe(filter, shared, &WORLD);
                    prop_assert_eq!(rights.may_subscribe(filter, sharing).is_allowed(), expected);
                }
            }
        }
    }
}

/// The evaluator itself, by cases that a person has worked out.
#[test]
fn the_evaluator_says_what_the_page_says() {
    let rule = |text: &str| {
        let words: Vec<&str> = text.splitn(3, ' ').collect();
        Rule {
            allows: words[0] == "allow",
            action: ["publish", "subscribe", "all"]
                .into_iter()
                .find(|action| *action == words[1])
                .expect("an action"),
            pattern: words[2].to_owned(),
        }
    };
    let who = |client_id: &str, rules: &[&str]| Who {
        client_id: client_id.to_owned(),
        user: "anna".to_owned(),
        rules: rules.iter().map(|text| rule(text)).collect(),
    };
    let device = who(
        "c1",
        &["allow publish %c/#", "allow subscribe a/#", "deny all a/b"],
    );
    assert!(device.may(Wish::Publish, "c1") && device.may(Wish::Publish, "c1/b/c1"));
    assert!(!device.may(Wish::Publish, "anna/b") && !device.may(Wish::Receive, "c1/b"));
    assert!(device.may(Wish::Receive, "a/c1") && !device.may(Wish::Receive, "a/b"));
    assert!(device.may_subscribe("a/#", false, &WORLD));
    assert!(
        !device.may_subscribe("a/#", true, &WORLD),
        "members must be able to take all of it"
    );
    assert!(
        !device.may_subscribe("a/b", false, &WORLD) && !device.may_subscribe("#", false, &WORLD)
    );
    for bad in ["", "+", "#", "a/b", "\u{1}"] {
        assert!(
            !who(bad, &["allow all %c"]).may(Wish::Publish, bad),
            "{bad:?}"
        );
    }
    let wild = who("c1", &["allow all #", "allow all +/b"]);
    assert!(!wild.may(Wish::Receive, "$SYS/b") && wild.may(Wish::Receive, "a/$SYS"));
    assert!(
        naive::matches("a/#", "a") && naive::matches("+/+", "/a") && !naive::matches("+", "/a")
    );
}
