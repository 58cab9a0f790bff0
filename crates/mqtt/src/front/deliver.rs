//! Deliveries to the client: window, bounds of the output, what is held back and in which order it leaves.
//!
//! - QoS 0 is dropped when the output is at its bound, or when the socket is full and the output has 64 KiB of its own; never held, but what
//!   a group has stored: that is held as QoS 1 is.
//! - QoS > 0 is held by reference while the window is full or the output is above [`HOLD_ABOVE_BYTES`]; it leaves in its stream's order
//!   (v3 [MQTT-4.6.0-6], v5 [MQTT-4.6.0-5]). What a session holds is bounded by the window that its home keeps; groups have a credit
//!   each, and take back after 50 ms what was not sent (M31); then they give as they hear of room (`limited`).

use std::collections::VecDeque;

use courser_contract::{
    Asked, CloseCause, DeliverTo, Delivery, DetachCause, Dropped, FrontEffects, Now, OutcomeKind,
    Permission, QoS, Record, Source, Tick, ToHome, Uptake,
};

use super::acks::Outcomes;
use super::alias::{AliasLoad, AliasesOut};
use super::close::End;
use super::groups::Groups;
use super::limited::Limited;
use super::output::Output;
use super::prepared::{AliasUse, Prepared, Sizes, Variant};
use super::window::{Exchange, Given, Place, Window};
use super::{Front, Phase, PlantedFront};
use crate::codec::{ProtocolVersion, ReasonCode};

/// A connection whose client does not read has at most this much of its own besides QoS 0 (M23).
pub(super) const HOLD_ABOVE_BYTES: usize = 64 * 1024;

/// What a shared group gave and could not be sent for this long goes back to it (M31).
pub(super) const GROUP_HELD_MS: u64 = 50;

/// What is under way to the client.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) window: Window,
    pub(super) outcomes: Option<Outcomes>,
    aliases: Option<AliasesOut>,
    held: VecDeque<Held>,
    held_of_groups: VecDeque<Held>,
    pub(super) groups: Groups,
    pub(super) limited: Limited,
}

/// A delivery that waits for room. It shares the record's bytes.
#[derive(Debug)]
struct Held {
    record: Record,
    to: DeliverTo,
    place: Place,
    since: Tick,
}

/// What became of a delivery that was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    Expired,
    TooLarge,
}

impl Outbound {
    pub(super) fn new(window: Window, topic_alias_max: u16, alias_load: &AliasLoad) -> Self {
        Self {
            window,
            outcomes: None,
            aliases: (topic_alias_max > 0).then(|| AliasesOut::new(topic_alias_max, alias_load)),
            held: VecDeque::new(),
            held_of_groups: VecDeque::new(),
            groups: Groups::default(),
            limited: Limited::default(),
        }
    }

    /// Where a delivery is held. What a group gave on an earlier connection is this session's own.
    fn queue(&mut self, to: &DeliverTo, source: Source) -> &mut VecDeque<Held> {
        match source {
            Source::Group(_) if to.packet_id.is_none() || !to.flags.duplicate => {
                &mut self.held_of_groups
            }
            Source::Session | Source::Group(_) => &mut self.held,
        }
    }

    /// The next one that may leave: the session's own first, shared messages can go to others.
    fn next_held(&mut self) -> Option<Held> {
        let room = self.window.has_room();
        if room && let Some(held) = self.held.pop_front() {
            return Some(held);
        }
        let may_name = self.groups.may_name();
        let may_begin = self.window.has_room_for_group();
        // What was named has its place in the window, and QoS 0 needs neither that nor a packet id.
        let window = &self.window;
        let has_place = |id| window.has_place(id);
        self.held_of_groups.pop_front_if(|held| {
            let is_free = held.to.qos == QoS::AtMostOnce;
            let may_leave = match held.to.packet_id {
                Some(packet_id) => room || has_place(packet_id),
                None => may_begin,
            };
            is_free || (may_name && may_leave)
        })
    }

    /// Place of the first shared delivery that goes back. One with a packet id stays: it is this session's own by a committed
    /// word of the group, and leaves as soon as the client reads on.
    fn next_to_return(&self, due: impl Fn(Tick) -> bool) -> Option<usize> {
        let mut held = self.held_of_groups.iter();
        held.position(|held| held.to.packet_id.is_none() && due(held.since))
    }

    /// Begins an exchange, as [`Window::begin`].
    #[inline]
    pub(super) fn begin(&mut self, place: Place, exchange: Exchange) -> Option<u16> {
        let packet_id = self.window.begin(place, exchange);
        if !self.limited.is_empty() {
            self.note_begun(place.0);
        }
        packet_id
    }

    #[cold]
    fn note_begun(&mut self, source: Source) {
        match source {
            Source::Group(_) => self.limited.note_used(),
            Source::Session => {}
        }
        if !self.window.has_room() {
            self.limited.note_full();
        }
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.held.is_empty() && self.held_of_groups.is_empty()
    }

    /// Nothing in it is still needed.
    pub(super) fn is_idle(&self) -> bool {
        self.holds_nothing()
            && self.window.is_idle()
            && self.aliases.is_none()
            && self.outcomes.is_none()
            && self.groups.is_idle()
            && self.limited.is_empty()
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        self.window.check();
    }
}

impl Front {
    /// A delivery for this front.
    #[inline]
    pub fn deliver(
        &mut self,
        now: Now,
        prepared: &mut Prepared<'_>,
        to: &DeliverTo,
        fx: &mut impl FrontEffects,
    ) {
        if !matches!(self.phase, Phase::Attached) {
            return self.deliver_early(prepared, to, fx);
        }
        match to.source {
            Some(place) => self.deliver_stored(now, prepared, (to, place), fx),
            None => self.deliver_at_most_once(prepared, to, fx),
        }
    }

    #[inline]
    fn deliver_at_most_once(
        &mut self,
        prepared: &mut Prepared<'_>,
        to: &DeliverTo,
        fx: &mut impl FrontEffects,
    ) {
        if to.flags.shared && self.session.uptake == Uptake::Prompt && self.is_behind() {
            self.tell_uptake(Uptake::Behind, fx);
        }
        let takes_all = self.config.is_planted(PlantedFront::OutputUnbounded);
        if self.output.len() >= self.config.output_bytes_max && !takes_all {
            return fx.dropped(Dropped::OutputFull, 1);
        }
        if fx.may(Asked::Receive(prepared.delivery.view.topic)) == Permission::Denied {
            return self.refuse_unstored(to, fx);
        }
        match self.variant(prepared, to) {
            Ok((_, sizes))
                if self.output.is_blocked()
                    && !prepared.fits_blocked(sizes, &self.output)
                    && !takes_all =>
            {
                fx.dropped(Dropped::OutputFull, 1);
            }
            Ok((variant, sizes)) => self.append(prepared, (&variant, sizes), 0),
            Err(skip) => fx.dropped(skip.dropped(), 1),
        }
    }

    /// What its stream keeps until it hears what became of it: at QoS > 0, and what a group gives to a member that takes QoS 0.
    fn deliver_stored(
        &mut self,
        now: Now,
        prepared: &mut Prepared<'_>,
        (to, place): (&DeliverTo, Place),
        fx: &mut impl FrontEffects,
    ) {
        let room = self.output.len() < HOLD_ABOVE_BYTES;
        let outbound = self.outbound_mut();
        let mut first = None;
        let has_place = match (place, to.packet_id) {
            _ if to.qos == QoS::AtMostOnce => true,
            ((Source::Session, _), _) => outbound.window.has_room(),
            ((Source::Group(_), _), None) => {
                outbound.window.has_room_for_group() && outbound.groups.may_name()
            }
            ((Source::Group(group), seq), Some(packet_id)) => {
                match outbound.window.give(group, seq, packet_id) {
                    Given::Named => {
                        // Nothing has left yet, whatever a new leader of the group takes for possible.
                        first = to.flags.duplicate.then(|| to.as_first());
                        true
                    }
                    Given::Taken => {
                        // Named for an earlier leader: this one needs no other word.
                        outbound.groups.forget_asked((group, seq));
                        outbound.window.has_room()
                    }
                    Given::UnderWay => return,
                    // Said to a leader that has lost it (M27).
                    Given::Received => {
                        self.outcome(place, OutcomeKind::Received, fx);
                        return self.flush_skipped(fx);
                    }
                    Given::Finished => {
                        self.outcome(place, OutcomeKind::Done, fx);
                        return self.flush_skipped(fx);
                    }
                    Given::InUse => {
                        self.give_back(place, to.qos, fx);
                        return self.flush_skipped(fx);
                    }
                }
            }
        };
        let to = first.as_ref().unwrap_or(to);
        let outbound = self.outbound_mut();
        if room && has_place && outbound.queue(to, place.0).is_empty() {
            self.start(prepared, (to, place), fx);
            return match to.qos {
                QoS::AtMostOnce => self.flush_unless_written(fx),
                QoS::AtLeastOnce | QoS::ExactlyOnce => self.flush_skipped(fx),
            };
        }
        let record = match &prepared.delivery.record {
            Some(record) => record.to_record(),
            None => Record::copy_of(prepared.delivery.view),
        };
        if let Some(packet_id) = to.packet_id {
            outbound.window.hold(packet_id);
        }
        if !outbound.limited.is_empty() {
            outbound.limited.note_full();
        }
        outbound.queue(to, place.0).push_back(Held {
            record,
            to: to.clone(),
            place,
            since: now.tick,
        });
    }

    /// Sends a delivery for which there is room, or settles it as never sent.
    fn start(
        &mut self,
        prepared: &mut Prepared<'_>,
        (to, place): (&DeliverTo, Place),
        fx: &mut impl FrontEffects,
    ) {
        if fx.may(Asked::Receive(prepared.delivery.view.topic)) == Permission::Denied {
            return self.refuse_delivery((to, place), fx);
        }
        let (variant, sizes) = match self.variant(prepared, to) {
            Ok(planned) => planned,
            Err(skip) => {
                self.end_given(to);
                return self.skip(skip, place, fx);
            }
        };
        let exchange = match to.qos {
            // Nobody else may have it now, and nobody will say that it has come.
            QoS::AtMostOnce => {
                self.append(prepared, (&variant, sizes), 0);
                return self.outcome(place, OutcomeKind::Done, fx);
            }
            QoS::AtLeastOnce => Exchange::Puback,
            QoS::ExactlyOnce => Exchange::Pubrec,
        };
        let outbound = self.outbound_mut();
        let packet_id = match to.packet_id {
            Some(packet_id) => {
                outbound.window.set(packet_id, exchange);
                Some(packet_id)
            }
            None => outbound.begin(place, exchange),
        };
        if let Some(packet_id) = packet_id {
            self.append(prepared, (&variant, sizes), packet_id);
        }
    }

    /// A delivery that was due is not sent. What is too large for this member of a group is not dropped: another one may take it.
    #[cold]
    fn skip(&mut self, skip: Skip, place: Place, fx: &mut impl FrontEffects) {
        match (skip, place.0) {
            (Skip::TooLarge, Source::Group(_)) => self.outcome(place, OutcomeKind::TooLarge, fx),
            (Skip::TooLarge, Source::Session) | (Skip::Expired, _) => {
                fx.dropped(skip.dropped(), 1);
                self.outcome(place, OutcomeKind::Skipped, fx);
            }
        }
    }

    /// The client has no right to a message, or no longer (I11). One of its own stream is done with. One of a shared group is for the
    /// others: the connection ends, since a member that sends back what it gets would be given it again.
    #[cold]
    fn refuse_delivery(&mut self, (to, place): (&DeliverTo, Place), fx: &mut impl FrontEffects) {
        match place.0 {
            Source::Session => {
                fx.dropped(Dropped::Denied, 1);
                self.end_given(to);
                self.outcome(place, OutcomeKind::Skipped, fx);
            }
            Source::Group(_) => self.close_unshared(fx),
        }
    }

    /// The same of one that nobody keeps. The others of its group get the next ones.
    #[cold]
    fn refuse_unstored(&mut self, to: &DeliverTo, fx: &mut impl FrontEffects) {
        fx.dropped(Dropped::Denied, 1);
        if to.flags.shared {
            self.close_unshared(fx);
        }
    }

    /// A member of a group that may not have what the group gives it.
    #[cold]
    fn close_unshared(&mut self, fx: &mut impl FrontEffects) {
        let text = "a shared subscription of this session is not allowed any more";
        let end = End::new(DetachCause::Lost, CloseCause::ShareRevoked);
        self.disconnect((ReasonCode::NotAuthorized, text), end, fx);
    }

    /// A delivery with a packet id will not be sent: the id is free when the group knows.
    fn end_given(&mut self, to: &DeliverTo) {
        if let Some(packet_id) = to.packet_id {
            self.outbound_mut().window.end(packet_id);
        }
    }

    /// How this client gets the message, unless its time is over or it is too large: v5 [MQTT-3.3.2-5], v5 [MQTT-3.1.2-25]. What was
    /// sent before is sent again whatever its time says (M30), v5 [MQTT-4.3.3-7].
    ///
    /// Inlined always: handing the result over in memory cost 10 ns of about 45 a delivery (`benches/front_time.rs`).
    #[inline(always)]
    fn variant<'i>(
        &mut self,
        prepared: &mut Prepared<'_>,
        to: &'i DeliverTo,
    ) -> Result<(Variant<'i>, Sizes), Skip> {
        if prepared.expired() && !to.flags.duplicate {
            return Err(Skip::Expired);
        }
        let v5 = self.peer.version == ProtocolVersion::V5;
        let never_dup = self.config.is_planted(PlantedFront::RepeatWithoutDup);
        let mut variant = Variant {
            version: self.peer.version,
            qos: to.qos,
            retain: to.flags.retain,
            duplicate: to.flags.duplicate && to.qos != QoS::AtMostOnce && !never_dup,
            alias: AliasUse::None,
            identifiers: match &to.identifiers {
                Some(identifiers) if v5 => identifiers,
                Some(_) | None => &[],
            },
        };
        if self.peer.topic_alias_max > 0 {
            let hash = prepared.topic_hash();
            let topic = prepared.delivery.view.topic;
            if let Some(aliases) = &mut self.outbound_mut().aliases {
                variant.alias = aliases.choose(hash, topic);
            }
        }
        let packet_bytes_max = self.peer.packet_bytes_max;
        if let Some(sizes) = prepared.fit(&variant, packet_bytes_max) {
            return Ok((variant, sizes));
        }
        // An alias that is bound takes three bytes more than none.
        if matches!(variant.alias, AliasUse::Bind(_)) {
            variant.alias = AliasUse::None;
            if let Some(sizes) = prepared.fit(&variant, packet_bytes_max) {
                return Ok((variant, sizes));
            }
        }
        Err(Skip::TooLarge)
    }

    #[inline]
    fn append(
        &mut self,
        prepared: &mut Prepared<'_>,
        (variant, sizes): (&Variant<'_>, Sizes),
        packet_id: u16,
    ) {
        if let AliasUse::Bind(alias) = variant.alias {
            let hash = prepared.topic_hash();
            let topic = prepared.delivery.view.topic;
            if let Some(aliases) = &mut self.outbound_mut().aliases {
                aliases.commit(alias, hash, topic);
            }
        }
        prepared.append((variant, sizes), packet_id, &mut self.output);
    }

    /// What has gone into the output at QoS 0 is told once that is written, with all others; anything else at once.
    fn flush_unless_written(&mut self, fx: &mut impl FrontEffects) {
        let pending = self.outbound.as_ref().and_then(|it| it.outcomes.as_ref());
        if pending.is_some_and(|run| !run.is_done()) {
            self.flush_outcomes(fx);
        }
    }

    /// What was skipped is told at once: no read may follow.
    fn flush_skipped(&mut self, fx: &mut impl FrontEffects) {
        let pending = self
            .outbound
            .as_ref()
            .is_some_and(|outbound| outbound.outcomes.is_some());
        if pending {
            self.flush_outcomes(fx);
        }
    }

    /// Whether half of what QoS 0 may take of the output is taken. The other half is for what groups give before they hear of it.
    pub(super) fn is_behind(&self) -> bool {
        let output = &self.output;
        output.len() >= self.config.output_bytes_max / 2
            || (output.is_blocked() && output.own_bytes() >= Output::OWN_BYTES_MAX / 2)
    }

    /// Says how fast the client reads, so that groups give what nobody stores to other members meanwhile.
    #[cold]
    fn tell_uptake(&mut self, uptake: Uptake, fx: &mut impl FrontEffects) {
        self.session.uptake = uptake;
        let (home, epoch) = (self.session.home, self.session.epoch);
        let session = home.session;
        let message = ToHome::Uptake {
            session,
            epoch,
            uptake,
        };
        fx.send_home(home.partition, message);
    }

    /// The output went below its low mark: what was held is sent. Costs a comparison when nothing is held.
    pub fn handle_output_room(&mut self, now: Now, fx: &mut impl FrontEffects) {
        self.send_held(now, fx);
        self.tell_page_taken(fx);
        let reads_again = self.session.uptake == Uptake::Behind && !self.output.is_blocked();
        if reads_again && !self.is_behind() && matches!(self.phase, Phase::Attached) {
            self.tell_uptake(Uptake::Prompt, fx);
        }
    }

    /// The home has sent a page of retained messages at QoS 0, and waits with the next one.
    pub(super) fn handle_retained_page(&mut self, fx: &mut impl FrontEffects) {
        self.session.owes_page = true;
        self.tell_page_taken(fx);
    }

    /// Says that there is room for the next page, once nearly all of the last one is written.
    fn tell_page_taken(&mut self, fx: &mut impl FrontEffects) {
        let has_room = self.output.len() < Output::LOW_BYTES && !self.output.is_blocked();
        if self.session.owes_page && has_room {
            self.session.owes_page = false;
            let (home, epoch) = (self.session.home, self.session.epoch);
            let session = home.session;
            fx.send_home(home.partition, ToHome::PageTaken { session, epoch });
        }
    }

    /// Sends what was held, as far as there is room: the session's own first, shared messages can go to others.
    pub(super) fn send_held(&mut self, now: Now, fx: &mut impl FrontEffects) {
        while self.output.len() < HOLD_ABOVE_BYTES
            && let Some(outbound) = &mut self.outbound
            && let Some(held) = outbound.next_held()
        {
            let delivery = Delivery {
                view: &held.record.view(),
                record: Some(held.record.as_ref()),
            };
            let config = self.config.clone();
            let mut scratch = config.prepared.take();
            let mut prepared = Prepared::new(&delivery, now, &mut scratch);
            self.start(&mut prepared, (&held.to, held.place), fx);
            config.prepared.replace(scratch);
        }
        self.name_asked(fx);
        self.flush_skipped(fx);
        self.tell_room(now, fx);
    }

    /// When shared messages go back to their group.
    pub(super) fn held_deadline(&self) -> Option<Tick> {
        let outbound = self.outbound.as_ref()?;
        let may = |held: &&Held| held.to.packet_id.is_none();
        let held = outbound.held_of_groups.iter().find(may);
        let held = held.map(|held| held.since);
        let since = held
            .into_iter()
            .chain(outbound.groups.asked_since())
            .min()?;
        Some(since.after_ms(GROUP_HELD_MS))
    }

    /// Gives back what could not be sent in time.
    pub(super) fn return_held(&mut self, now: Now, fx: &mut impl FrontEffects) {
        let due = |since: Tick| since.after_ms(GROUP_HELD_MS) <= now.tick;
        while let Some(outbound) = &mut self.outbound
            && let Some(at) = outbound.next_to_return(due)
            && let Some(held) = outbound.held_of_groups.remove(at)
        {
            self.give_back(held.place, held.to.qos, fx);
        }
        while let Some(outbound) = &mut self.outbound
            && let Some(place) = outbound.groups.next_asked(due)
        {
            self.give_back(place, QoS::ExactlyOnce, fx);
        }
        // What stood behind it may have its place already.
        self.send_held(now, fx);
    }
}

impl Skip {
    const fn dropped(self) -> Dropped {
        match self {
            Self::Expired => Dropped::Expired,
            Self::TooLarge => Dropped::TooLarge,
        }
    }
}
