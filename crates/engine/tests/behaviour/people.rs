//! Clients as many tests want them.

use courser_contract::{Publish, PublishedQos2, PubrecCan, QoS, Record, RequestPart, ToHome, Will};

use crate::world::{Options, World, message};

/// A client with a session that outlives its connection.
pub(crate) fn durable(world: &mut World, name: &str) -> usize {
    let at = world.client(name);
    world.attach(at, Options::durable());
    at
}

/// A client whose session ends with its connection.
pub(crate) fn clean(world: &mut World, name: &str) -> usize {
    let at = world.client(name);
    world.attach(at, Options::clean());
    at
}

/// A session that outlives its connection, with a will.
pub(crate) fn will(topic: &str, delay_seconds: u32) -> Options {
    Options {
        will: Some(Will {
            topic: topic.into(),
            properties: Box::default(),
            payload: Box::from(*b"gone"),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay_seconds,
            expiry_seconds: None,
        }),
        ..Options::durable()
    }
}

/// A QoS 2 publish of a 5.0 client to the home.
pub(crate) fn publish_qos2(
    world: &mut World,
    at: usize,
    packet_id: u16,
    topic: &str,
    payload: &str,
    hash: u64,
) {
    let publish = message(topic, payload, QoS::ExactlyOnce);
    hold(world, at, (packet_id, hash), &publish, PubrecCan::Refuse);
}

/// The same with RETAIN.
pub(crate) fn retain_qos2(
    world: &mut World,
    at: usize,
    packet_id: u16,
    topic: &str,
    payload: &str,
) {
    let named = (packet_id, packet_id.into());
    retain2_as(world, at, named, (topic, payload), PubrecCan::Refuse);
}

/// The same of a client of either version, with a packet id and a hash.
pub(crate) fn retain2_as(
    world: &mut World,
    at: usize,
    named: (u16, u64),
    (topic, payload): (&str, &str),
    pubrec: PubrecCan,
) {
    let publish = Publish {
        retain: true,
        ..message(topic, payload, QoS::ExactlyOnce)
    };
    hold(world, at, named, &publish, pubrec);
}

pub(crate) fn hold(
    world: &mut World,
    at: usize,
    named: (u16, u64),
    publish: &Publish<'_>,
    pubrec: PubrecCan,
) {
    let to = world.home(at).partition;
    let message = publish_to_home(world, at, named, publish, pubrec);
    world.send_home(to, message);
}

/// What a front says of a QoS 2 publish.
pub(crate) fn publish_to_home(
    world: &World,
    at: usize,
    (packet_id, hash): (u16, u64),
    publish: &Publish<'_>,
    pubrec: PubrecCan,
) -> ToHome {
    let destinations = world.fx.route(publish.topic, publish.retain);
    let home = world.home(at);
    let publish = Publish {
        publisher: Some(world.clients[at].hash()),
        ..*publish
    };
    ToHome::PublishQos2 {
        session: home.session,
        epoch: world.clients[at].epoch,
        publish: Box::new(PublishedQos2 {
            packet_id,
            hash,
            record: Record::copy_of(&(&publish).into()),
            cuts: destinations.iter().map(|_| world.fx.cut).collect(),
            destinations,
            pubrec,
        }),
    }
}

/// PUBREL to the home, and all that follows.
pub(crate) fn release(world: &mut World, at: usize, packet_id: u16) {
    send_release(world, at, packet_id);
    world.settle();
}

/// PUBREL to the home, and nothing yet of what follows.
pub(crate) fn send_release(world: &mut World, at: usize, packet_id: u16) {
    let home = world.home(at);
    let message = ToHome::Release {
        session: home.session,
        epoch: world.clients[at].epoch,
        packet_id,
    };
    world.send_home(home.partition, message);
}

/// It leaves the group of `t/#`: the answer comes later.
pub(crate) fn leave_group(world: &mut World, at: usize) {
    let home = world.home(at);
    let message = ToHome::Unsubscribe {
        session: home.session,
        epoch: world.clients[at].epoch,
        part: RequestPart::whole(9),
        filters: vec![(Some("g".into()), "t/#".into())],
    };
    world.send_home(home.partition, message);
}
