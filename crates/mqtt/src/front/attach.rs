//! From the login to CONNACK: the attach to the session in one or two steps (M23), and every way in which it is refused.

use courser_contract::{
    AttachStage, Attached, CloseCause, ConnectRefusal, DetachCause, Epoch, FrontEffects, Now,
    ToFront, ToHome, WhyRefused,
};

use super::auth::ReAuthentication;
use super::close::{End, cause_of};
use super::connect::Step;
use super::window::group_ids_from;
use super::{Claim, Front, Phase, Redirect};
use crate::codec::ReasonCode;

impl Front {
    pub(super) fn handle_message_while_connecting(
        &mut self,
        now: Now,
        message: ToFront,
        fx: &mut impl FrontEffects,
    ) {
        match message {
            ToFront::Attached(attached) => self.handle_attached(now, attached, fx),
            ToFront::Claimed { epoch } => self.handle_claimed(epoch, fx),
            ToFront::ConnectRefused(refusal) => self.handle_connect_refused(refusal, fx),
            ToFront::TakenOver => {
                self.refuse((ReasonCode::ServerBusy, ""), CloseCause::TakenOver, fx);
            }
            ToFront::Closed(reason) => {
                self.refuse((ReasonCode::ServerUnavailable, ""), cause_of(reason), fx);
            }
            // Its groups may have heard of the connection sooner.
            ToFront::Release { .. }
            | ToFront::Name { .. }
            | ToFront::Withheld { .. }
            | ToFront::Owed { .. }
            | ToFront::NothingOwed { .. }
            | ToFront::Void { .. } => self.message_early(message),
            // Nothing else is said to a session before it is attached.
            ToFront::Subscribed { .. }
            | ToFront::Unsubscribed { .. }
            | ToFront::Received { .. }
            | ToFront::Released { .. }
            | ToFront::Finished { .. }
            | ToFront::RetainedPage => {}
        }
    }

    fn handle_claimed(&mut self, epoch: Epoch, fx: &mut impl FrontEffects) {
        let Phase::Connecting(connecting) = &mut self.phase else {
            return;
        };
        self.session.epoch = epoch;
        self.session.claim = Claim::Apart;
        if let Some(end) = connecting.doomed {
            self.session.client_id = std::mem::take(&mut connecting.attach.client_id);
            self.unclaim(fx);
            return self.close_unattached(end.cause, fx);
        }
        connecting.step = Step::Opening(epoch);
        let mut attach = connecting.attach.clone();
        attach.stage = AttachStage::Open(epoch);
        fx.send_home(fx.volatile_partition(), ToHome::Attach(Box::new(attach)));
    }

    fn handle_connect_refused(&mut self, refusal: ConnectRefusal, fx: &mut impl FrontEffects) {
        let Phase::Connecting(connecting) = &mut self.phase else {
            return;
        };
        let claimed = matches!(connecting.step, Step::Opening(_));
        let doomed = connecting.doomed;
        self.session.client_id = connecting.attach.client_id.clone();
        let (reason, why) = match refusal {
            ConnectRefusal::Unavailable => {
                (ReasonCode::ServerUnavailable, Some(WhyRefused::NotServed))
            }
            ConnectRefusal::NotAuthorized => {
                (ReasonCode::NotAuthorized, Some(WhyRefused::OtherOwner))
            }
            ConnectRefusal::QuotaExceeded => {
                (ReasonCode::QuotaExceeded, Some(WhyRefused::Sessions))
            }
            ConnectRefusal::UserSessions => {
                (ReasonCode::QuotaExceeded, Some(WhyRefused::UserSessions))
            }
            ConnectRefusal::NoMemory => (ReasonCode::QuotaExceeded, Some(WhyRefused::Memory)),
            ConnectRefusal::NoDisk => (ReasonCode::QuotaExceeded, Some(WhyRefused::Disk)),
            // CONNACK has no Session taken over.
            ConnectRefusal::TakenOver => (ReasonCode::ServerBusy, None),
        };
        if doomed.is_none() {
            self.send_connack_refused((reason, ""));
        }
        if claimed {
            self.unclaim(fx);
        }
        let cause = match why {
            Some(why) => CloseCause::Refused(reason.byte(), why),
            None => CloseCause::TakenOver,
        };
        self.close_unattached(doomed.map_or(cause, |end| end.cause), fx);
    }

    fn handle_attached(&mut self, now: Now, attached: Attached, fx: &mut impl FrontEffects) {
        let Phase::Connecting(mut connecting) = std::mem::replace(&mut self.phase, Phase::Attached)
        else {
            return;
        };
        self.session.client_id = std::mem::take(&mut connecting.attach.client_id);
        self.session.publisher = connecting.attach.publisher;
        self.session.home = attached.home;
        self.session.epoch = attached.epoch;
        if attached.present {
            self.begin_group_ids(attached.epoch);
        }
        if let Some(end) = connecting.doomed {
            return self.end(end, fx);
        }
        self.heard = now.tick;
        if self
            .send_connack_accepted(&connecting, attached.present)
            .is_err()
        {
            // v5 [MQTT-3.1.2-24]: CONNACK itself is larger than the client takes.
            let cause = CloseCause::Fault(ReasonCode::PacketTooLarge.byte());
            return self.end(End::new(DetachCause::Disconnect, cause), fx);
        }
        self.reauthentication = connecting
            .method
            .take()
            .map(|method| Box::new(ReAuthentication::new(method)));
        self.expect_groups(now, attached.groups, fx);
    }

    /// What a group had given may be in the client's hands yet, under packet ids of an earlier connection.
    fn begin_group_ids(&mut self, epoch: Epoch) {
        let from = group_ids_from(epoch);
        self.session.group_ids_from = from;
        if let Some(outbound) = &mut self.outbound {
            outbound.window.begin_groups_at(from);
        }
    }

    /// CONNACK that refuses, once: v5 [MQTT-3.2.0-2]; then the connection ends, v3 [MQTT-3.2.2-5], v5 [MQTT-3.2.2-7]. What was given
    /// to the session is let go without its will: it was never accepted.
    pub(super) fn refuse(
        &mut self,
        (reason, text): (ReasonCode, &str),
        cause: CloseCause,
        fx: &mut impl FrontEffects,
    ) {
        if let Phase::Connecting(connecting) = &self.phase
            && connecting.doomed.is_none()
        {
            self.send_connack_refused((reason, text));
            self.doom(End::new(DetachCause::Disconnect, cause), fx);
        }
    }

    pub(super) fn refuse_with_redirect(&mut self, redirect: &Redirect, fx: &mut impl FrontEffects) {
        if let Phase::Connecting(connecting) = &self.phase
            && connecting.doomed.is_none()
        {
            self.send_connack_elsewhere(redirect);
            let cause = CloseCause::Refused(redirect.reason().byte(), WhyRefused::ByReason);
            self.doom(End::new(DetachCause::Disconnect, cause), fx);
        }
    }

    /// Ends a connection that is not attached yet: at once, or when the answer under way has come.
    pub(super) fn doom(&mut self, end: End, fx: &mut impl FrontEffects) {
        let Phase::Connecting(connecting) = &mut self.phase else {
            return;
        };
        match connecting.step {
            Step::ClientAnswers | Step::Verdict => self.close_unattached(end.cause, fx),
            Step::Claiming | Step::Opening(_) => {
                connecting.doomed.get_or_insert(end);
            }
        }
    }

    /// The time for login or attach is over.
    pub(super) fn handle_connecting_timeout(&mut self, fx: &mut impl FrontEffects) {
        let Phase::Connecting(connecting) = &self.phase else {
            return;
        };
        match connecting.step {
            Step::ClientAnswers => {
                let why = (ReasonCode::NotAuthorized, "the login took too long");
                self.refuse(why, CloseCause::LoginTimeout, fx);
            }
            // The client has done its part: it may come again.
            Step::Verdict => {
                let why = (
                    ReasonCode::ServerBusy,
                    "the login had to wait for too long; try again later",
                );
                self.refuse(why, CloseCause::LoginWaited, fx);
            }
            Step::Claiming | Step::Opening(_) => {
                let reason = ReasonCode::ServerUnavailable;
                let cause = CloseCause::Refused(reason.byte(), WhyRefused::NoAnswer);
                self.refuse((reason, ""), cause, fx);
            }
        }
    }
}
