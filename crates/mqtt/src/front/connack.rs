//! What CONNACK says.

use super::Front;
use super::config::Feature;
use super::connect::{Connecting, announced_qos};
use crate::codec::{
    Connack, EncodeError, MqttStr, PACKET_BYTES_MAX, Packet, PropertiesBuilder, Property,
    PropertyError, PropertyScope, ReasonCode, Secret,
};
use std::num::NonZeroU32;

impl Front {
    pub(super) fn send_connack_accepted(
        &mut self,
        connecting: &Connecting,
        session_present: bool,
    ) -> Result<(), EncodeError> {
        let mut builder = PropertiesBuilder::new(PropertyScope::Connack);
        let built = self
            .push_limits(&mut builder)
            .and_then(|()| self.push_answers(connecting, &mut builder));
        debug_assert!(built.is_ok(), "each property of CONNACK is added once");
        self.send(&Packet::Connack(Connack {
            session_present,
            reason: ReasonCode::Success,
            properties: builder.properties(),
        }))
    }

    /// What every client is told; what is the protocol's default is left out.
    fn push_limits(&self, builder: &mut PropertiesBuilder) -> Result<(), PropertyError> {
        let config = &self.config;
        if config.receive_maximum.get() < u16::MAX {
            builder.push(Property::ReceiveMaximum(config.receive_maximum))?;
        }
        // v5 [MQTT-3.2.2-9]
        if let Some(qos) = announced_qos(config.maximum_qos) {
            builder.push(Property::MaximumQos(qos))?;
        }
        if config.retain == Feature::Off {
            builder.push(Property::RetainAvailable(false))?;
        }
        let packet_bytes_max = config.limits.packet_bytes_max;
        if packet_bytes_max < PACKET_BYTES_MAX
            && let Some(bytes) = NonZeroU32::new(packet_bytes_max)
        {
            builder.push(Property::MaximumPacketSize(bytes))?;
        }
        if self.peer.topic_alias_in_max > 0 {
            builder.push(Property::TopicAliasMaximum(self.peer.topic_alias_in_max))?;
        }
        if config.wildcards == Feature::Off {
            builder.push(Property::WildcardSubscriptionAvailable(false))?;
        }
        if config.subscription_identifiers == Feature::Off {
            builder.push(Property::SubscriptionIdentifierAvailable(false))?;
        }
        if config.shared_subscriptions == Feature::Off {
            builder.push(Property::SharedSubscriptionAvailable(false))?;
        }
        Ok(())
    }

    /// What this client is told.
    fn push_answers(
        &self,
        connecting: &Connecting,
        builder: &mut PropertiesBuilder,
    ) -> Result<(), PropertyError> {
        let told = &connecting.told;
        // v5 [MQTT-3.2.2-16]
        if told.assigned_client_id
            && let Ok(client_id) = MqttStr::new(&self.session.client_id)
        {
            builder.push(Property::AssignedClientIdentifier(client_id))?;
        }
        if let Some(seconds) = told.session_expiry_seconds {
            builder.push(Property::SessionExpiryInterval(seconds))?;
        }
        if let Some(seconds) = told.keep_alive_seconds {
            builder.push(Property::ServerKeepAlive(seconds))?;
        }
        // v5 [MQTT-3.1.2-28]
        if told.response_information
            && let Some(information) = &self.config.response_information
            && let Ok(information) = MqttStr::new(information)
        {
            builder.push(Property::ResponseInformation(information))?;
        }
        // v5 [MQTT-4.12.0-5], v5 [MQTT-4.12.0-6]
        if let Some(method) = connecting.method.as_deref()
            && let Ok(method) = MqttStr::new(method)
        {
            builder.push(Property::AuthenticationMethod(method))?;
            if !connecting.auth_data.is_empty()
                && let Some(data) = Secret::new(&connecting.auth_data)
            {
                builder.push(Property::AuthenticationData(data))?;
            }
        }
        Ok(())
    }
}
