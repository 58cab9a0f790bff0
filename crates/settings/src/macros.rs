//! The two macros of the table.

/// Declares sections of settings: the structs with their defaults, the assignment by key, and the description.
macro_rules! settings {
    ($(
        $(#[doc = $section_doc:literal])+
        $section:ident: $Section:ident {
            $(
                $(#[doc = $doc:literal])+
                $name:ident: $type:ty = $default:expr, $(in $range:expr,)? applies = $applies:ident;
            )+
        }
    )+) => {
        $(
            $(#[doc = $section_doc])+
            #[derive(Debug, Clone, PartialEq)]
            #[non_exhaustive]
            pub struct $Section {
                $(
                    $(#[doc = $doc])+
                    pub $name: $type,
                )+
            }

            impl Default for $Section {
                fn default() -> Self {
                    Self { $($name: $default,)+ }
                }
            }
        )+

        /// Checked values of all settings.
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        pub struct Settings {
            $(
                $(#[doc = $section_doc])+
                pub $section: $Section,
            )+
        }

        impl Settings {
            /// Gives one setting a value; `None` when there is no such key.
            pub(crate) fn assign(
                &mut self,
                key: &str,
                raw: &$crate::value::Raw,
            ) -> Option<Result<(), $crate::value::Refused>> {
                match key {
                    $($(
                        concat!(stringify!($section), ".", stringify!($name)) => {
                            let range = settings!(@range $type $(, $range)?);
                            let value = $crate::value::accept(raw, range);
                            Some(value.map(|value| self.$section.$name = value))
                        }
                    )+)+
                    _ => None,
                }
            }
        }

        /// Names of the sections with what they are for.
        pub(crate) const SECTIONS: &[(&str, &str)] =
            &[$((stringify!($section), concat!($($section_doc),+)),)+];

        /// Every setting, in the order of the table.
        #[must_use]
        pub fn table() -> Vec<$crate::Setting> {
            use $crate::value::Value;
            vec![$($({
                let default: $type = $default;
                let range: Option<std::ops::RangeInclusive<$type>> = settings!(@range $type $(, $range)?);
                $crate::Setting {
                    key: concat!(stringify!($section), ".", stringify!($name)),
                    kind: <$type as Value>::KIND,
                    default: default.show(),
                    range: range.map(|range| (range.start().show(), range.end().show())),
                    applies: $crate::Applies::$applies,
                    doc: concat!($($doc),+),
                }
            },)+)+]
        }
    };
    (@range $type:ty) => {
        None::<std::ops::RangeInclusive<$type>>
    };
    (@range $type:ty, $range:expr) => {
        Some($range)
    };
}

/// Declares an enum whose variants are words in the file.
macro_rules! choice {
    (
        $(#[$meta:meta])+
        $Name:ident {
            $(
                $(#[$variant_meta:meta])+
                $Variant:ident = $word:literal,
            )+
        }
    ) => {
        $(#[$meta])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
        pub enum $Name {
            $(
                $(#[$variant_meta])+
                $Variant,
            )+
        }

        impl $Name {
            /// The word in the file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $word,)+
                }
            }
        }

        impl Value for $Name {
            const KIND: &'static str = concat!("one of", $(" `", $word, "`"),+);
            const EXPECTS: &'static str = concat!("one of", $(" \"", $word, "\""),+);

            fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
                match raw {
                    $(Raw::Text(text) if text == $word => Ok(Self::$Variant),)+
                    _ => Err(Mismatch::Kind),
                }
            }

            fn show(&self) -> String {
                format!("\"{}\"", self.name())
            }
        }
    };
}
