//! M1, M2: names, classes and places.

use courser_settings::Sources;

use super::*;
use crate::slots::Relaxed;

fn classes(list: &str) -> Classes {
    let sources = Sources::new().set(&format!("class=[{list}]"));
    let settings = sources.check().expect("the settings of a test are right");
    let places = Places::new(16, 2, Relaxed::Made);
    Classes::new(places, &settings.classes)
}

fn class(classes: &Classes, name: &str) -> (Class, Class) {
    let places = &classes.places;
    (
        places.class_of(classes.session(name)),
        places.class_of(classes.retained(name)),
    )
}

#[test]
fn m1_the_first_filter_that_matches_decides() {
    let classes = classes(
        r##"{ filter = "sensor/7", class = "durable" }, { filter = "sensor/+", class = "relaxed" },
           { filter = "#", class = "volatile" }"##,
    );
    let both = |class| (class, class);
    assert_eq!(class(&classes, "sensor/7"), both(Class::Durable));
    assert_eq!(class(&classes, "sensor/8"), both(Class::Relaxed));
    assert_eq!(class(&classes, "sensor/8/x"), both(Class::Volatile));
    // As everywhere a wildcard does not stand for a name that begins with a dollar.
    assert_eq!(class(&classes, "$x"), both(Class::Durable));
    assert_eq!(classes.retained("$SYS/broker/uptime"), KEEPER);
}

#[test]
fn m1_without_classes_everything_is_durable() {
    let classes = classes("");
    assert_eq!(
        class(&classes, "sensor/7"),
        (Class::Durable, Class::Durable)
    );
    assert!(classes.may_differ(), "there are relaxed partitions");
    let none = Places::new(16, 2, Relaxed::None);
    assert!(!Classes::new(none, &[]).may_differ());
    assert_eq!(classes.retained_all().count(), 33);
}

#[test]
fn m1_what_is_elsewhere_stays_there() {
    let mut classes = classes(r#"{ filter = "a/#", class = "relaxed" }"#);
    let was = PartitionId(3);
    assert_ne!(classes.session("a/1"), was);
    let mut stays = Stays::default();
    stays.note_session(&classes, "a/1", was);
    stays.note_retained(&classes, "a/t", was);
    let right = classes.session("a/2");
    stays.note_session(&classes, "a/2", right);
    assert_eq!(stays.sessions.len(), 1, "what is right needs no note");
    let mut all = Stays::default();
    all.add(stays);
    classes.set_stays(Arc::new(all));
    assert_eq!(classes.session("a/1"), was);
    assert_eq!(classes.retained("a/t"), was);
    assert_eq!(classes.session("a/2"), right);
}
