//! What users may do, worked out without any code of the program from the words of `docs/security.md`: every rule of every role of the
//! user is looked at each time, topics and filters are lists of words, and what a filter stands for is tried out topic by topic.

#![allow(dead_code, reason = "each file of tests uses a part")]

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Publish,
    Receive,
}

/// A rule in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Otherwise it denies.
    pub allows: bool,
    /// `publish`, `subscribe` or `all`.
    pub action: &'static str,
    pub pattern: String,
}

/// Whom it is about, with all rules of all roles that count for it.
#[derive(Clone, Debug, Default)]
pub struct Who {
    pub client_id: String,
    pub user: String,
    pub rules: Vec<Rule>,
}

impl Rule {
    /// As it is written.
    pub fn text(&self) -> String {
        let effect = if self.allows { "allow" } else { "deny" };
        format!("{effect} {} {}", self.action, self.pattern)
    }

    fn is_about(&self, wish: Wish) -> bool {
        match wish {
            Wish::Publish => self.action != "subscribe",
            Wish::Receive => self.action != "publish",
        }
    }
}

/// Words of a pattern in which placeholders stand for what they mean; none: one of them can mean nothing.
fn filled(pattern: &str, who: &Who) -> Option<Vec<String>> {
    let stands_for = |at: usize, name: &str| {
        let mut bad = name
            .chars()
            .filter(|c| "/+#".contains(*c) || c.is_control());
        let opens_dollar = at == 0 && name.starts_with('$');
        (!name.is_empty() && !opens_dollar && bad.next().is_none()).then(|| name.to_owned())
    };
    let word = |(at, word): (usize, &str)| match word {
        "%c" => stands_for(at, &who.client_id),
        "%u" => stands_for(at, &who.user),
        // A mark, so that a name that looks like a wildcard would be none.
        "+" | "#" => Some(format!("\n{word}")),
        _ => Some(word.to_owned()),
    };
    pattern.split('/').enumerate().map(word).collect()
}

/// Words of a subscription's filter, in the same form.
fn of_filter(filter: &str) -> Vec<String> {
    let word = |word: &str| match word {
        "+" | "#" => format!("\n{word}"),
        _ => word.to_owned(),
    };
    filter.split('/').map(word).collect()
}

fn goes_on(filter: &[String], topic: &[&str]) -> bool {
    match (filter.split_first(), topic.split_first()) {
        (None, None) => true,
        (Some((word, _)), _) if word == "\n#" => true,
        (Some((word, filter)), Some((level, topic))) => {
            (word == "\n+" || word == level) && goes_on(filter, topic)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// Clauses 4.7.1 and 4.7.2 of MQTT, word for word.
fn is_for(filter: &[String], topic: &str) -> bool {
    let wild = filter[0].starts_with('\n');
    if wild && topic.starts_with('$') {
        return false;
    }
    goes_on(filter, &topic.split('/').collect::<Vec<_>>())
}

/// Whether a filter of a subscription is for a topic.
pub fn matches(filter: &str, topic: &str) -> bool {
    is_for(&of_filter(filter), topic)
}

impl Who {
    fn speaks(&self, rule: &Rule, topic: &str) -> bool {
        filled(&rule.pattern, self).is_some_and(|words| is_for(&words, topic))
    }

    /// Some rule allows it, and none denies it.
    pub fn may(&self, wish: Wish, topic: &str) -> bool {
        let mut about = self.rules.iter();
        let spoken: Vec<bool> = about
            .by_ref()
            .filter(|rule| rule.is_about(wish) && self.speaks(rule, topic))
            .map(|rule| rule.allows)
            .collect();
        spoken.contains(&true) && !spoken.contains(&false)
    }

    /// Whether it may subscribe: one allowing rule is for every topic of the filter, and no denying one is; of a shared one none is for
    /// any of them. `world` are all topics that could make a difference.
    pub fn may_subscribe(&self, filter: &str, shared: bool, world: &[String]) -> bool {
        let words = of_filter(filter);
        let of_it: Vec<&String> = world.iter().filter(|topic| is_for(&words, topic)).collect();
        assert!(!of_it.is_empty(), "the world has no topic of {filter}");
        let about = || {
            self.rules
                .iter()
                .filter(|rule| rule.is_about(Wish::Receive))
        };
        let all = |rule: &Rule| {
            let words = filled(&rule.pattern, self);
            words.is_some_and(|words| of_it.iter().all(|topic| is_for(&words, topic)))
        };
        let any = |rule: &Rule| {
            let words = filled(&rule.pattern, self);
            words.is_some_and(|words| of_it.iter().any(|topic| is_for(&words, topic)))
        };
        let denied = about()
            .filter(|rule| !rule.allows)
            .any(|rule| if shared { any(rule) } else { all(rule) });
        !denied && about().any(|rule| rule.allows && all(rule))
    }
}

/// Every topic of these levels and of up to so many of them, and with each level that nobody has named (`?`).
pub fn world(levels: &[&str], depth: usize) -> Vec<String> {
    let levels: Vec<&str> = levels.iter().copied().chain(["?"]).collect();
    let mut topics: Vec<String> = levels.iter().map(|&level| level.to_owned()).collect();
    let mut last = topics.clone();
    for _ in 1..depth {
        let longer = last
            .iter()
            .flat_map(|topic| levels.iter().map(move |level| format!("{topic}/{level}")));
        last = longer.collect();
        topics.extend(last.iter().cloned());
    }
    // An empty topic is none.
    topics.retain(|topic| !topic.is_empty());
    topics
}
