//! Filters: which keys a subscription wants. Two spellings of one thing.

use router::FilterError as MqttError;
use std::fmt;

/// One token of a filter in the token spelling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    /// Exactly this token.
    Is(&'a str),
    /// Any one token: MQTT's `+`.
    Any,
    /// Everything below what comes before, and that itself: MQTT's `#`. Only as the last token.
    Rest,
}

/// A filter of valid form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Filter(Box<str>);

/// Why something is no filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FilterError {
    /// A rule of MQTT is broken.
    Mqtt(MqttError),
    /// [`Token::Rest`] is not the last token.
    RestNotLast,
    /// A [`Token::Is`] contains `/`, or would be read as a wildcard.
    NotOneToken,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterError::Mqtt(error) => error.fmt(f),
            FilterError::RestNotLast => {
                f.write_str("Token::Rest must be the last token of a filter")
            }
            FilterError::NotOneToken => {
                f.write_str("a token of a filter must not contain '/', '+' or '#'")
            }
        }
    }
}

impl std::error::Error for FilterError {}

impl From<MqttError> for FilterError {
    fn from(error: MqttError) -> Self {
        FilterError::Mqtt(error)
    }
}

impl Filter {
    /// A filter in MQTT's spelling: `+` for any one token, `#` at the end for everything below.
    ///
    /// # Errors
    /// The rule of MQTT that the text breaks.
    pub fn new(text: &str) -> Result<Filter, FilterError> {
        router::check_filter(text)?;
        Ok(Filter(text.into()))
    }

    /// A filter from tokens.
    ///
    /// # Errors
    /// [`FilterError::RestNotLast`], [`FilterError::NotOneToken`], or the rule of MQTT that is broken.
    pub fn from_tokens(tokens: &[Token<'_>]) -> Result<Filter, FilterError> {
        let mut text = String::new();
        for (at, token) in tokens.iter().enumerate() {
            if at != 0 {
                text.push('/');
            }
            match token {
                Token::Is(token) if token.contains(['/', '+', '#']) => {
                    return Err(FilterError::NotOneToken);
                }
                Token::Is(token) => text.push_str(token),
                Token::Any => text.push('+'),
                Token::Rest if at + 1 == tokens.len() => text.push('#'),
                Token::Rest => return Err(FilterError::RestNotLast),
            }
        }
        Filter::new(&text)
    }

    /// The filter in MQTT's spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_text(self) -> Box<str> {
        self.0
    }

    /// Whether a key of this text would be delivered. Linear in the shorter of both.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        router::filter_matches(&self.0, key)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What [`subscribe`](crate::Router::subscribe) takes as a filter: text, tokens, or a [`Filter`].
pub trait IntoFilter {
    /// The filter, checked.
    ///
    /// # Errors
    /// What is wrong with it.
    fn into_filter(self) -> Result<Filter, FilterError>;
}

impl IntoFilter for Filter {
    fn into_filter(self) -> Result<Filter, FilterError> {
        Ok(self)
    }
}

impl IntoFilter for &Filter {
    fn into_filter(self) -> Result<Filter, FilterError> {
        Ok(self.clone())
    }
}

impl IntoFilter for &str {
    fn into_filter(self) -> Result<Filter, FilterError> {
        Filter::new(self)
    }
}

impl IntoFilter for &String {
    fn into_filter(self) -> Result<Filter, FilterError> {
        Filter::new(self)
    }
}

impl IntoFilter for &[Token<'_>] {
    fn into_filter(self) -> Result<Filter, FilterError> {
        Filter::from_tokens(self)
    }
}

impl<const N: usize> IntoFilter for [Token<'_>; N] {
    fn into_filter(self) -> Result<Filter, FilterError> {
        Filter::from_tokens(&self)
    }
}
