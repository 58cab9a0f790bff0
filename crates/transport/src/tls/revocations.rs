//! Which revocation lists count where a text has several of one authority.
//!
//! The library asks the first list that is about a certificate and no other one, so it is given one for each authority and scope: the latest.
//! Scopes that are not the same and share certificates are refused, since what the second list says would not count.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use rustls::pki_types::CertificateRevocationListDer;
use x509_parser::extensions::{IssuingDistributionPoint, ParsedExtension};
use x509_parser::num_bigint::BigUint;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::TlsError;
use super::standing::Doubt;

/// The lists of one issuer and scope are versions of each other.
type Key<'a> = (&'a [u8], Option<&'a [u8]>);

/// A list with its place in the text.
struct List<'a> {
    at: usize,
    bytes: &'a [u8],
    parsed: CertificateRevocationList<'a>,
}

/// Which one it is, for people.
impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parsed.crl_number() {
            Some(number) => write!(f, "number {number}")?,
            None => write!(f, "no number")?,
        }
        write!(f, " of {}", self.parsed.last_update())
    }
}

impl<'a> List<'a> {
    fn key(&self) -> Key<'_> {
        let scope = self.scope().map(|(bytes, _)| bytes);
        (self.parsed.issuer().as_raw(), scope)
    }

    /// Which certificates of its authority the list is about, as written and as read. None: all.
    fn scope(&self) -> Option<(&[u8], &IssuingDistributionPoint<'_>)> {
        let mut all = self.parsed.extensions().iter();
        all.find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::IssuingDistributionPoint(point) => Some((extension.value, point)),
            _ => None,
        })
    }

    /// Whether a certificate may be in the scope of either, of two scopes that are not the same.
    fn overlaps(&self, other: &Self) -> bool {
        let (Some((_, one)), Some((_, other))) = (self.scope(), other.scope()) else {
            return true;
        };
        let apart = one.only_contains_user_certs && other.only_contains_ca_certs
            || one.only_contains_ca_certs && other.only_contains_user_certs;
        let named = one.distribution_point.is_some()
            && other.distribution_point.is_some()
            && one.distribution_point != other.distribution_point;
        !apart && !named
    }

    fn number(&self) -> Option<&BigUint> {
        self.parsed.crl_number()
    }

    /// The order of two lists of one key. Numbers say it where both have one, as RFC 5280 section 5.2.3 has it; else moments do.
    fn order(&self, other: &Self, by: By) -> Ordering {
        let made = |list: &Self| list.parsed.last_update().timestamp();
        let moments = made(self).cmp(&made(other));
        match by {
            By::Numbers => self.number().cmp(&other.number()).then(moments),
            By::Moments => moments,
        }
    }
}

/// What orders lists: one thing for all of a key, so that three of them are never in a circle.
#[derive(Clone, Copy)]
enum By {
    Numbers,
    Moments,
}

impl By {
    fn of(lists: &[&List<'_>]) -> Self {
        match lists.iter().all(|list| list.number().is_some()) {
            true => Self::Numbers,
            false => Self::Moments,
        }
    }
}

/// Lists that can be read, by their keys. What cannot is judged by the library.
fn read<'a>(lists: &'a [CertificateRevocationListDer<'_>]) -> Vec<List<'a>> {
    let parsed = lists.iter().enumerate().filter_map(|(at, der)| {
        let (_, parsed) = CertificateRevocationList::from_der(der).ok()?;
        let bytes = der.as_ref();
        Some(List { at, bytes, parsed })
    });
    parsed.collect()
}

fn by_key<'r, 'a>(lists: &'r [List<'a>]) -> BTreeMap<Key<'r>, Vec<&'r List<'a>>> {
    let mut keyed: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for list in lists {
        keyed.entry(list.key()).or_default().push(list);
    }
    keyed
}

/// The latest of lists of one key, of which there is at least one.
fn latest<'r, 'a>(lists: &[&'r List<'a>]) -> Result<&'r List<'a>, TlsError> {
    let by = By::of(lists);
    let mut latest = lists[0];
    for list in lists {
        if list.order(latest, by) == Ordering::Greater {
            latest = list;
        }
    }
    let rival = lists
        .iter()
        .find(|list| list.order(latest, by) == Ordering::Equal && list.bytes != latest.bytes);
    match rival {
        None => Ok(latest),
        Some(rival) => Err(unordered(latest, rival)),
    }
}

fn unordered(one: &List<'_>, other: &List<'_>) -> TlsError {
    let (one, other) = if one.at < other.at {
        (one, other)
    } else {
        (other, one)
    };
    TlsError::UnorderedRevocations {
        authority: one.parsed.issuer().to_string(),
        one: one.to_string(),
        other: other.to_string(),
    }
}

/// The lists that count, in the order of the text.
///
/// # Errors
/// When it cannot be said which of two does.
pub(super) fn counting(
    lists: Vec<CertificateRevocationListDer<'static>>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let read = read(&lists);
    let mut counting: Vec<&List<'_>> = Vec::new();
    for (key, all) in by_key(&read) {
        let latest = latest(&all)?;
        // Keys are in order, so that those of one issuer follow each other.
        let same = counting.iter().rev();
        let mut same = same.take_while(|it| it.key().0 == key.0);
        if let Some(other) = same.find(|it| it.overlaps(latest)) {
            return Err(unordered(other, latest));
        }
        counting.push(latest);
    }
    let passed: Vec<bool> = {
        let mut passed = vec![false; lists.len()];
        read.iter().for_each(|list| passed[list.at] = true);
        counting.iter().for_each(|list| passed[list.at] = false);
        passed
    };
    let all = lists.into_iter().zip(passed);
    Ok(all
        .filter(|(_, passed)| !passed)
        .map(|(it, _)| it)
        .collect())
}

/// Lists that count now though a later one did before: what that one revoked may come in again.
pub(super) fn stepped_back(
    before: &[CertificateRevocationListDer<'_>],
    now: &[CertificateRevocationListDer<'_>],
) -> Vec<Doubt> {
    let (before, now) = (read(before), read(now));
    let (before, now) = (by_key(&before), by_key(&now));
    let mut found = Vec::new();
    for (key, lists) in &now {
        let before = before.get(key).map(|lists| latest(lists));
        let (Some(Ok(before)), Ok(now)) = (before, latest(lists)) else {
            continue;
        };
        if now.order(before, By::of(&[before, now])) == Ordering::Less {
            found.push(Doubt::ListBack {
                authority: now.parsed.issuer().to_string(),
                now: now.to_string(),
                before: before.to_string(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, CrlDistributionPoint,
        CrlIssuingDistributionPoint, CrlScope, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
        KeyUsagePurpose, SerialNumber, date_time_ymd,
    };

    use super::*;

    type Der = CertificateRevocationListDer<'static>;

    struct Ca(Issuer<'static, KeyPair>);

    impl Ca {
        fn new(name: &str) -> Self {
            let mut params = CertificateParams::new([]).expect("no names");
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::CrlSign];
            Self(Issuer::new(params, KeyPair::generate().expect("a key")))
        }

        /// A list of a number, made on a day of 2024.
        fn list(&self, number: u64, day: u8, scope: Option<CrlIssuingDistributionPoint>) -> Der {
            let params = CertificateRevocationListParams {
                this_update: date_time_ymd(2024, 1, day),
                next_update: date_time_ymd(2099, 1, 1),
                crl_number: SerialNumber::from(number),
                issuing_distribution_point: scope,
                revoked_certs: Vec::new(),
                key_identifier_method: KeyIdMethod::Sha256,
            };
            let list = params.signed_by(&self.0).expect("it can be signed");
            list.der().clone()
        }
    }

    fn point(uri: &str, scope: Option<CrlScope>) -> Option<CrlIssuingDistributionPoint> {
        let uris = vec![uri.to_owned()];
        Some(CrlIssuingDistributionPoint {
            distribution_point: CrlDistributionPoint { uris },
            scope,
        })
    }

    /// A list without its number.
    fn unnumbered(list: &Der) -> Der {
        // The object identifier 2.5.29.20 becomes one that nobody knows.
        let mut bytes = list.to_vec();
        let at = bytes.windows(5).position(|it| it == [6, 3, 0x55, 0x1d, 20]);
        bytes[at.expect("it has a number") + 4] = 99;
        Der::from(bytes)
    }

    fn counting_of(lists: &[&Der]) -> Vec<Der> {
        counting(lists.iter().map(|&it| it.clone()).collect()).expect("they can be ordered")
    }

    #[test]
    fn the_latest_list_of_an_authority_counts_wherever_it_stands() {
        let (ca, other) = (Ca::new("one"), Ca::new("other"));
        // What was made later has a lower number: numbers say it.
        let (old, new) = (ca.list(9, 8, None), ca.list(10, 2, None));
        let third = other.list(1, 1, None);
        assert_eq!(
            counting_of(&[&old, &third, &new]),
            [third.clone(), new.clone()]
        );
        assert_eq!(counting_of(&[&new, &old, &third]), [new.clone(), third]);
        assert_eq!(counting_of(&[&new, &new]).len(), 1, "one list twice");
        let (early, late) = (unnumbered(&new), unnumbered(&old));
        assert_eq!(counting_of(&[&early, &late]), std::slice::from_ref(&late));
        assert_eq!(counting_of(&[&late, &new]), [late], "one has no number");
    }

    #[test]
    fn two_lists_that_cannot_be_ordered_are_refused_by_name() {
        let ca = Ca::new("one");
        let (list, again) = (ca.list(3, 1, None), ca.list(3, 1, None));
        let refused = |lists: [&Der; 2]| {
            let lists = lists.map(Clone::clone).to_vec();
            counting(lists).expect_err("it cannot be said").to_string()
        };
        let said = refused([&list, &again]);
        let part = "two revocation lists of CN=one";
        assert!(said.contains(part), "{said}");
        assert_eq!(said.matches("number 3 of Jan  1 ").count(), 2, "{said}");
        // One for all certificates and one for some of them.
        let some = ca.list(7, 2, point("http://a.example/1", None));
        let said = refused([&some, &list]);
        let at = |text| said.find(text).expect("both are named");
        assert!(at("number 7") < at("number 3"), "as they stand: {said}");
        // An older one that ties with another older one is in nobody's way.
        let latest = ca.list(4, 1, None);
        assert_eq!(counting_of(&[&list, &latest, &again]), [latest]);
    }

    #[test]
    fn lists_of_scopes_that_share_nothing_count_side_by_side() {
        let ca = Ca::new("one");
        let uri = "http://a.example/1";
        let users = ca.list(3, 1, point(uri, Some(CrlScope::UserCertsOnly)));
        let newer = ca.list(4, 1, point(uri, Some(CrlScope::UserCertsOnly)));
        let authorities = ca.list(9, 1, point(uri, Some(CrlScope::CaCertsOnly)));
        let elsewhere = ca.list(1, 1, point("http://a.example/2", None));
        assert_eq!(
            counting_of(&[&users, &authorities, &newer, &elsewhere]),
            [authorities, newer, elsewhere]
        );
    }

    #[test]
    fn a_list_that_is_older_than_the_one_before_is_doubtful() {
        let (ca, other) = (Ca::new("one"), Ca::new("other"));
        let (first, second) = (ca.list(1, 1, None), ca.list(2, 1, None));
        let third = other.list(1, 1, None);
        let both = [first.clone(), second.clone()];
        let of = |before: &[Der], now: &[Der]| stepped_back(before, now);
        let back = of(&both, std::slice::from_ref(&first));
        assert!(matches!(back[..], [Doubt::ListBack { .. }]), "{back:?}");
        let said = back[0].to_string();
        let part = "of CN=one was number 2 of Jan";
        assert!(
            said.contains(part) && said.contains("is number 1"),
            "{said}"
        );
        assert!(of(std::slice::from_ref(&first), &both).is_empty());
        assert!(of(&both, &[second, third]).is_empty());
        assert!(of(&[], &[first]).is_empty());
    }
}
