//! The two macros of the table.

/// Declares sections of settings: the structs with their defaults, the assignment by key, and the description; then lists,
/// whose items are tables of settings with the same parts. A field of an item without a default must be given.
macro_rules! settings {
    (
        $(
            $(#[doc = $section_doc:literal])+
            $section:ident: $Section:ident {
                $(
                    $(#[doc = $doc:literal])+
                    $name:ident: $type:ty = $default:expr, $(in $range:expr,)? applies = $applies:ident;
                )+
            }
        )+
        lists {
            $(
                $(#[doc = $list_doc:literal])+
                [[$list:ident]] $items:ident: $Item:ident by $identity:ident, at most $items_max:literal, applies = $list_applies:ident {
                    $(
                        $(#[doc = $field_doc:literal])+
                        $field:ident: $field_type:ty $(= $field_default:expr)?, $(in $field_range:expr,)? applies = $field_applies:ident;
                    )+
                }
            )*
        }
    ) => {
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

        $(
            $(#[doc = $list_doc])+
            #[derive(Debug, Clone, PartialEq)]
            #[non_exhaustive]
            pub struct $Item {
                $(
                    $(#[doc = $field_doc])+
                    pub $field: $field_type,
                )+
            }

            impl $crate::list::Item for $Item {
                const LIST: &'static str = stringify!($list);
                const IDENTITY: &'static str = stringify!($identity);
                const ITEMS_MAX: usize = $items_max;

                fn read(fields: &mut $crate::list::Fields<'_>) -> Option<Self> {
                    $(
                        let $field: Option<$field_type> = fields.take(
                            stringify!($field),
                            settings!(@range $field_type $(, $field_range)?),
                            settings!(@default $field_type $(, $field_default)?),
                        );
                    )+
                    Some(Self { $($field: $field?,)+ })
                }

                fn identity(&self) -> String {
                    $crate::value::Value::show(&self.$identity)
                }

                fn assign(
                    &mut self,
                    field: &str,
                    written: &$crate::value::Written,
                ) -> Result<(), $crate::list::NotAssigned> {
                    match field {
                        $(
                            stringify!($field) => {
                                let range = settings!(@range $field_type $(, $field_range)?);
                                let value = $crate::value::accept(written, range);
                                self.$field = value.map_err($crate::list::NotAssigned::Refused)?;
                                Ok(())
                            }
                        )+
                        _ => Err($crate::list::NotAssigned::NoField),
                    }
                }
            }
        )*

        /// Checked values of all settings.
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        pub struct Settings {
            $(
                $(#[doc = $section_doc])+
                pub $section: $Section,
            )+
            $(
                $(#[doc = $list_doc])+
                pub $items: Vec<$Item>,
            )*
        }

        impl Settings {
            /// Gives one setting a value; `None` when there is no such key.
            pub(crate) fn assign(
                &mut self,
                key: &str,
                written: &$crate::value::Written,
            ) -> Option<Result<(), $crate::value::Refused>> {
                match key {
                    $($(
                        concat!(stringify!($section), ".", stringify!($name)) => {
                            let range = settings!(@range $type $(, $range)?);
                            let value = $crate::value::accept(written, range);
                            Some(value.map(|value| self.$section.$name = value))
                        }
                    )+)+
                    _ => None,
                }
            }
        }

        impl Settings {
            /// Gives one list more items, or with [`Given::Instead`](crate::list::Given) other ones; false when there is no such list.
            pub(crate) fn assign_list(
                &mut self,
                list: &str,
                given: $crate::list::Given,
                tables: $crate::list::Tables<'_>,
            ) -> bool {
                match list {
                    $(
                        stringify!($list) => {
                            tables.read_into(&mut self.$items, given);
                            true
                        }
                    )*
                    _ => false,
                }
            }
        }

        impl Settings {
            /// Gives one field of an item of a list another value.
            pub(crate) fn assign_field(
                &mut self,
                key: &$crate::list::FieldKey<'_>,
                written: &$crate::value::Written,
            ) -> Result<(), $crate::list::NotAssigned> {
                match key.list {
                    $(stringify!($list) => $crate::list::assign_field(&mut self.$items, key, written),)*
                    _ => Err($crate::list::NotAssigned::NoItem),
                }
            }
        }

        impl Settings {
            /// Every value, in the order of the table; fields of items as `list["identity"].field`.
            #[must_use]
            pub fn values(&self) -> Vec<$crate::SettingValue> {
                use $crate::value::Value;
                let mut values = vec![$($($crate::SettingValue {
                    key: concat!(stringify!($section), ".", stringify!($name)).to_owned(),
                    value: self.$section.$name.show(),
                    applies: $crate::Applies::$applies,
                },)+)+];
                $(for item in &self.$items {
                    let identity = item.$identity.show();
                    values.extend([$($crate::SettingValue {
                        key: format!(concat!(stringify!($list), "[{}].", stringify!($field)), identity),
                        value: item.$field.show(),
                        applies: $crate::Applies::$field_applies,
                    },)+]);
                })*
                values
            }

            /// Takes over from `new` what a running process takes over: every value that applies before a restart. Items that
            /// both have are told apart as in the file; ones that came or went are taken over where the list says so.
            pub fn adopt(&mut self, new: &Self) {
                $($(settings!(@adopt $applies, self.$section.$name, new.$section.$name);)+)+
                $({
                    let mut kept = std::mem::take(&mut self.$items);
                    for item in &mut kept {
                        let other = new.$items.iter().find(|other| other.$identity == item.$identity);
                        if let Some(other) = other {
                            $(settings!(@adopt $field_applies, item.$field, other.$field);)+
                        }
                    }
                    self.$items = $crate::list::adopt(kept, &new.$items, $crate::Applies::$list_applies);
                })*
            }

            /// The items of every list in their order, each by the field that tells it apart.
            pub(crate) fn identities(&self) -> Vec<(&'static str, Vec<String>)> {
                vec![$((
                    stringify!($list),
                    self.$items.iter().map($crate::list::Item::identity).collect(),
                ),)*]
            }
        }

        /// Every list, in the order of the table.
        #[must_use]
        pub fn lists() -> Vec<$crate::ListSetting> {
            vec![$($crate::ListSetting {
                name: stringify!($list),
                identity: stringify!($identity),
                items_max: $items_max,
                applies: $crate::Applies::$list_applies,
                doc: concat!($($list_doc),+),
                fields: vec![$(settings!(
                    @describe concat!(stringify!($list), ".", stringify!($field)), $field_type,
                    settings!(@default $field_type $(, $field_default)?),
                    settings!(@range $field_type $(, $field_range)?),
                    $field_applies, concat!($($field_doc),+)
                ),)+],
            },)*]
        }

        /// Names of the sections with what they are for.
        pub(crate) const SECTIONS: &[(&str, &str)] =
            &[$((stringify!($section), concat!($($section_doc),+)),)+];

        /// Every setting outside of lists, in the order of the table.
        #[must_use]
        pub fn table() -> Vec<$crate::Setting> {
            vec![$($(settings!(
                @describe concat!(stringify!($section), ".", stringify!($name)), $type, Some($default),
                settings!(@range $type $(, $range)?), $applies, concat!($($doc),+)
            ),)+)+]
        }
    };
    (@describe $key:expr, $type:ty, $default:expr, $range:expr, $applies:ident, $doc:expr) => {{
        use $crate::value::Value;
        let default: Option<$type> = $default;
        let range: Option<std::ops::RangeInclusive<$type>> = $range;
        $crate::Setting {
            key: $key,
            kind: <$type as Value>::KIND,
            default: default.map(|value| value.show()),
            range: range.as_ref().map(|range| (range.start().show(), range.end().show())),
            applies: $crate::Applies::$applies,
            schema: <$type as Value>::schema(range.as_ref()),
            doc: $doc,
        }
    }};
    (@adopt Restart, $old:expr, $new:expr) => {
        let _ = (&$old, &$new);
    };
    (@adopt $applies:ident, $old:expr, $new:expr) => {
        $old.clone_from(&$new);
    };
    (@default $type:ty) => {
        None::<$type>
    };
    (@default $type:ty, $default:expr) => {
        Some($default)
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
                    _ => Err($crate::value::no_word(raw, &[$($word),+], Self::EXPECTS)),
                }
            }

            fn show(&self) -> String {
                format!("\"{}\"", self.name())
            }

            fn schema(_range: Option<&std::ops::RangeInclusive<Self>>) -> serde_json::Value {
                serde_json::json!({ "anyOf": [
                    { "enum": [$($word),+] },
                    $crate::value::drawn(),
                ] })
            }
        }
    };
}
