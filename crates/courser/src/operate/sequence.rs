//! What comes one after the other while a command looks. As lines each is printed when it comes; as one JSON document all of them are
//! printed when the last one has come, or none.

use serde_json::Value;

use super::print::{Output, say_on};
use crate::cli::exit::{Exit, usage};

/// Whether the last one ever comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// It does.
    End,
    /// It does not, but for these flags.
    Interrupted(&'static str),
}

/// The things that have come so far.
#[derive(Debug)]
pub(crate) struct Sequence {
    output: Output,
    /// Of a document that is not printed yet. Whoever asks for one says how many there may be, or for how long they come.
    items: Vec<Value>,
}

impl Sequence {
    /// None yet.
    ///
    /// # Errors
    /// How the command ends that should make one document of what has no end.
    pub(crate) fn new(output: Output, until: Until) -> Result<Self, Exit> {
        match (output, until) {
            (Output::Json, Until::Interrupted(flags)) => Err(usage(&format!(
                "-o json is one document, and this has no end: say -o jsonl for one a line, or {flags}"
            ))),
            (Output::Json, Until::End) | (Output::Table | Output::Jsonl, _) => Ok(Self {
                output,
                items: Vec::new(),
            }),
        }
    }

    /// The next one, which people read in these words.
    ///
    /// # Errors
    /// How the command ends when it cannot be printed, or nobody reads any more.
    pub(crate) fn add(
        &mut self,
        item: &Value,
        words: impl FnOnce(&Value) -> String,
    ) -> Result<(), Exit> {
        match self.output {
            Output::Table => say_on(&words(item)),
            Output::Jsonl => say_on(&Output::Jsonl.text(item)),
            Output::Json => {
                self.items.push(item.clone());
                Ok(())
            }
        }
    }

    /// There are no more.
    ///
    /// # Errors
    /// As of [`Output::rows`].
    pub(crate) fn end(self) -> Result<(), Exit> {
        match self.output {
            Output::Table | Output::Jsonl => Ok(()),
            Output::Json => Output::Json.rows(&self.items, &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_ends_is_one_document() {
        let endless = Until::Interrupted("-C COUNT");
        assert_eq!(
            Sequence::new(Output::Json, endless).map(|_| ()),
            Err(Exit::Usage)
        );
        assert!(Sequence::new(Output::Json, Until::End).is_ok());
        for output in [Output::Table, Output::Jsonl] {
            assert!(Sequence::new(output, endless).is_ok());
        }
    }

    #[test]
    fn a_document_has_all_of_them() {
        let mut sequence = Sequence::new(Output::Json, Until::End).expect("it ends");
        for number in 0..3 {
            let words = |_: &Value| panic!("no words are in a document");
            assert_eq!(sequence.add(&json!({"number": number}), words), Ok(()));
        }
        assert_eq!(sequence.items.len(), 3);
    }
}
