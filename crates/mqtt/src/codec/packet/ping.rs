//! PINGREQ and PINGRESP: two bytes each.

use crate::codec::encode::{Body, EncodeError, Trim};
use crate::codec::error::DecodeErrorKind;
use crate::codec::frame::Frame;
use crate::codec::types::{PacketType, ProtocolVersion};

macro_rules! ping {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl $name {
            pub(crate) fn read(frame: &Frame<'_>) -> Result<Self, DecodeErrorKind> {
                if frame.body().is_empty() {
                    Ok(Self)
                } else {
                    Err(DecodeErrorKind::TrailingBytes)
                }
            }
        }

        impl Body for $name {
            const PACKET_TYPE: PacketType = PacketType::$name;
            const TRIMS: bool = false;

            fn check(&self, _: ProtocolVersion) -> Result<(), EncodeError> {
                Ok(())
            }

            fn body_len(&self, _: ProtocolVersion, _: Trim) -> usize {
                0
            }

            fn write_body(&self, _: ProtocolVersion, _: Trim, _: &mut Vec<u8>) {}
        }
    )*};
}

ping! {
    /// PINGREQ: are you there?
    Pingreq;
    /// PINGRESP: the answer, v3 [MQTT-3.12.4-1], v5 [MQTT-3.12.4-1].
    Pingresp;
}
