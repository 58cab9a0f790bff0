//! Bugs of fronts that tests must find: without the feature `planted` nothing of them is there.

use super::config::FrontConfig;

/// A duty of a front that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedFront {
    /// What is delivered again has no DUP: v5 [MQTT-3.3.1-1].
    RepeatWithoutDup,
    /// The client's Receive Maximum is not looked at: v5 [MQTT-3.3.4-9].
    WindowIgnored,
    /// PUBREL of an exchange that began on an earlier connection does not leave again: v5 [MQTT-4.4.0-1].
    PubrelForgotten,
    /// A packet id that a group uses is free when PUBREC comes, not when the exchange is over: v5 [MQTT-2.2.1-4].
    IdFreeAtPubrec,
    /// QoS 0 goes on into the output of a client that does not read.
    OutputUnbounded,
}

impl FrontConfig {
    /// Plants a bug. For tests that must find it.
    #[cfg(feature = "planted")]
    pub const fn plant(&mut self, planted: PlantedFront) {
        self.planted = Some(planted);
    }

    /// Whether this bug is planted: never without the feature.
    pub(super) fn is_planted(&self, planted: PlantedFront) -> bool {
        cfg!(feature = "planted") && self.planted == Some(planted)
    }
}
