//! Ends of a connection: by the client, by us, by neither.
//!
//! One way out: [`Front::end`] tells the home, which gives the claim back, then the shell. v5 clients get a DISCONNECT before it where there
//! was a CONNACK, never else: v5 [MQTT-3.14.0-1]. Nothing follows it: v5 [MQTT-3.14.4-1], v5 [MQTT-3.14.4-2].

use courser_contract::{
    CloseCause, CloseReason, DetachCause, FrontEffects, HeldClaim, Now, SessionLimits, ToHome,
    WhyRefused,
};

use super::reasons::of_disconnect;
use super::{Claim, Flow, Front, Phase, Redirect, SessionEnds};
use crate::codec::{
    DecodeError, DecodeErrorKind, Disconnect, PacketType, PropertyScope, ReasonCode, Sender,
};

/// A rule that the client broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: ReasonCode,
    /// For the Reason String; nothing that the client sent.
    pub(super) text: &'static str,
}

impl Fault {
    pub(super) const fn protocol(text: &'static str) -> Self {
        Self {
            reason: ReasonCode::ProtocolError,
            text,
        }
    }
}

impl From<DecodeErrorKind> for Fault {
    fn from(kind: DecodeErrorKind) -> Self {
        Self {
            reason: kind.reason(),
            text: kind.text(),
        }
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        error.kind().into()
    }
}

/// What a revoked login means for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// It ends, and its will with it.
    EndsSession,
    /// It goes on without a connection; its will is deleted.
    DeletesWill,
    /// It goes on without a connection; its will is sent.
    SendsWill,
    /// The same, because what proved who the client is has ended: it may come again with something newer.
    Expires,
}

/// How a session is let go.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) detach: DetachCause,
    pub(super) cause: CloseCause,
    /// New session expiry interval, from a DISCONNECT.
    pub(super) expiry_seconds: Option<u32>,
}

impl End {
    pub(super) const fn new(detach: DetachCause, cause: CloseCause) -> Self {
        Self {
            detach,
            cause,
            expiry_seconds: None,
        }
    }
}

/// Why a connection ends that somebody else than its client closes.
pub(super) const fn cause_of(reason: CloseReason) -> CloseCause {
    match reason {
        CloseReason::Administrative => CloseCause::Administrative,
        CloseReason::Unfinished => CloseCause::Unfinished,
        CloseReason::ServerStops => CloseCause::ServerStops,
    }
}

impl Front {
    /// The client broke a rule: v3 [MQTT-4.8.0-1], v5 [MQTT-4.13.1-1].
    #[cold]
    pub(super) fn fail(&mut self, fault: Fault, fx: &mut impl FrontEffects) {
        let cause = CloseCause::Fault(fault.reason.byte());
        match self.phase {
            Phase::Attached => self.disconnect(
                (fault.reason, fault.text),
                End::new(DetachCause::Lost, cause),
                fx,
            ),
            // The version is not known, or CONNACK is the only answer that may be given.
            Phase::AwaitConnect => self.close_unattached(cause, fx),
            Phase::Connecting(_) => self.refuse((fault.reason, fault.text), cause, fx),
            Phase::Closed => {}
        }
    }

    /// DISCONNECT where the version has it, then the end. Without a text it says what its reason says.
    pub(super) fn disconnect(
        &mut self,
        (reason, text): (ReasonCode, &str),
        end: End,
        fx: &mut impl FrontEffects,
    ) {
        let reason = if reason.allowed_from(PacketType::Disconnect, Sender::Server) {
            reason
        } else {
            ReasonCode::UnspecifiedError
        };
        let text = if text.is_empty() {
            of_disconnect(reason)
        } else {
            text
        };
        let builder = self.explained(PropertyScope::Disconnect, text);
        self.send_disconnect(Disconnect {
            reason,
            properties: builder.properties(),
        });
        self.end(end, fx);
    }

    /// Lets go of the session and closes.
    pub(super) fn end(&mut self, end: End, fx: &mut impl FrontEffects) {
        self.flush_outcomes(fx);
        let home = self.session.home;
        let claim = match self.session.claim {
            Claim::Apart => Some(Box::new(HeldClaim {
                partition: fx.home_partition(&self.session.client_id),
                client_id: self.session.client_id.clone(),
            })),
            Claim::ByHome => None,
        };
        fx.send_home(
            home.partition,
            ToHome::Detach {
                session: home.session,
                epoch: self.session.epoch,
                cause: end.detach,
                expiry_seconds: end.expiry_seconds,
                open: Vec::new(),
                claim,
            },
        );
        self.close_unattached(end.cause, fx);
    }

    /// The client has proved anew who it is, and its session belongs to this owner from now on.
    pub fn handle_owner(
        &mut self,
        owner: Box<str>,
        limits: SessionLimits,
        fx: &mut impl FrontEffects,
    ) {
        if !matches!(self.phase, Phase::Attached) {
            return;
        }
        let home = self.session.home;
        fx.send_home(
            home.partition,
            ToHome::Owned {
                session: home.session,
                epoch: self.session.epoch,
                owner,
                limits,
            },
        );
    }

    pub(super) fn unclaim(&mut self, fx: &mut impl FrontEffects) {
        let partition = fx.home_partition(&self.session.client_id);
        fx.send_home(
            partition,
            ToHome::Unclaim {
                client_id: self.session.client_id.clone(),
                epoch: self.session.epoch,
                open: Vec::new(),
            },
        );
    }

    /// Closes where no session is attached, or no longer.
    pub(super) fn close_unattached(&mut self, cause: CloseCause, fx: &mut impl FrontEffects) {
        // The shell asks for it when it notes the end, also of who was refused.
        if let Phase::Connecting(connecting) = &mut self.phase
            && self.session.client_id.is_empty()
        {
            self.session.client_id = std::mem::take(&mut connecting.attach.client_id);
        }
        self.phase = Phase::Closed;
        self.inbound = None;
        self.outbound = None;
        self.requests = None;
        self.reauthentication = None;
        fx.close(cause);
    }

    /// DISCONNECT of the client: v3 [MQTT-3.14.4-3], v5 [MQTT-3.14.4-3].
    pub(super) fn handle_disconnect(
        &mut self,
        disconnect: &Disconnect<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        let asked = disconnect.properties.session_expiry_interval();
        if self.peer.session_ends == SessionEnds::WithConnection && asked.is_some_and(|s| s > 0) {
            return Err(Fault::protocol(
                "the session expiry interval was 0 in CONNECT and may not be raised",
            ));
        }
        let detach = if disconnect.reason == ReasonCode::NORMAL_DISCONNECTION {
            DetachCause::Disconnect
        } else {
            DetachCause::DisconnectWithWill
        };
        let end = End {
            expiry_seconds: asked.map(|s| s.min(self.config.session_expiry_max_seconds)),
            ..End::new(detach, CloseCause::Disconnect)
        };
        self.end(end, fx);
        Ok(Flow::Next)
    }

    /// Another connection has the client id: v3 [MQTT-3.1.4-2], v5 [MQTT-3.1.4-3].
    pub(super) fn close_taken_over(&mut self, fx: &mut impl FrontEffects) {
        self.disconnect(
            (ReasonCode::SessionTakenOver, ""),
            End::new(DetachCause::TakenOver, CloseCause::TakenOver),
            fx,
        );
    }

    pub(super) fn close_for(&mut self, reason: CloseReason, fx: &mut impl FrontEffects) {
        let (code, detach) = match reason {
            CloseReason::Administrative => (ReasonCode::AdministrativeAction, DetachCause::Lost),
            CloseReason::Unfinished => (ReasonCode::QuotaExceeded, DetachCause::Lost),
            CloseReason::ServerStops => (ReasonCode::ServerShuttingDown, DetachCause::ServerStops),
        };
        self.disconnect((code, ""), End::new(detach, cause_of(reason)), fx);
    }

    /// The socket is gone. The front lives on until it calls [`FrontEffects::close`], which may be at once.
    pub fn handle_lost(&mut self, now: Now, fx: &mut impl FrontEffects) {
        self.handle_given_up(now, CloseCause::Lost, fx);
    }

    /// The same where the shell has given the socket up, and knows why.
    pub fn handle_given_up(&mut self, now: Now, cause: CloseCause, fx: &mut impl FrontEffects) {
        let _ = now;
        self.output.clear();
        let end = End::new(DetachCause::Lost, cause);
        match self.phase {
            Phase::AwaitConnect => self.close_unattached(cause, fx),
            Phase::Connecting(_) => self.doom(end, fx),
            Phase::Attached => self.end(end, fx),
            Phase::Closed => {}
        }
    }

    /// The server stops: v5 clients hear DISCONNECT 0x8B.
    pub fn handle_stop(&mut self, now: Now, fx: &mut impl FrontEffects) {
        let _ = now;
        match self.phase {
            Phase::AwaitConnect => self.close_unattached(CloseCause::ServerStops, fx),
            // 0x8B is not in the table of CONNACK.
            Phase::Connecting(_) => {
                let why = (
                    ReasonCode::ServerUnavailable,
                    of_disconnect(ReasonCode::ServerShuttingDown),
                );
                self.refuse(why, CloseCause::ServerStops, fx);
            }
            Phase::Attached => self.close_for(CloseReason::ServerStops, fx),
            Phase::Closed => {}
        }
    }

    /// What the client proved at its login is not true any more, or allows less: DISCONNECT 0x87, or CONNACK while it is connecting.
    pub fn handle_revoked(&mut self, now: Now, how: Revocation, fx: &mut impl FrontEffects) {
        let _ = now;
        let (reason, text) = match how {
            Revocation::EndsSession | Revocation::DeletesWill | Revocation::SendsWill => (
                ReasonCode::NotAuthorized,
                "the right to be here was revoked",
            ),
            Revocation::Expires => (ReasonCode::MaximumConnectTime, "the token has ended"),
        };
        let cause = CloseCause::Revoked(reason.byte());
        match self.phase {
            Phase::AwaitConnect => self.close_unattached(cause, fx),
            // CONNACK has no reason of its own for an end.
            Phase::Connecting(_) => self.refuse((ReasonCode::NotAuthorized, text), cause, fx),
            Phase::Attached => {
                let (detach, expiry_seconds) = match how {
                    Revocation::EndsSession => (DetachCause::Disconnect, Some(0)),
                    Revocation::DeletesWill => (DetachCause::Disconnect, None),
                    Revocation::SendsWill | Revocation::Expires => (DetachCause::Lost, None),
                };
                let end = End {
                    expiry_seconds,
                    ..End::new(detach, cause)
                };
                self.disconnect((reason, text), end, fx);
            }
            Phase::Closed => {}
        }
    }

    /// The client is sent to another server: DISCONNECT, or CONNACK while it is connecting, 0x9C or 0x9D with the Server Reference.
    /// 3.1.1 clients are only closed.
    pub fn handle_redirect(&mut self, now: Now, redirect: &Redirect, fx: &mut impl FrontEffects) {
        let _ = now;
        let reason = redirect.reason();
        let cause = CloseCause::Refused(reason.byte(), WhyRefused::ByReason);
        match self.phase {
            Phase::AwaitConnect => self.close_unattached(cause, fx),
            Phase::Connecting(_) => self.refuse_with_redirect(redirect, fx),
            Phase::Attached => {
                self.send_disconnect_elsewhere(redirect);
                self.end(End::new(DetachCause::Lost, cause), fx);
            }
            Phase::Closed => {}
        }
    }
}
