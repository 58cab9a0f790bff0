//! Property identifiers and the table of the packets that they belong to (v5 table 2-4).

/// Where a property block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // named after the packets
pub enum PropertyScope {
    Connect,
    /// The will properties in the payload of CONNECT.
    Will,
    Connack,
    Publish,
    Puback,
    Pubrec,
    Pubrel,
    Pubcomp,
    Subscribe,
    Suback,
    Unsubscribe,
    Unsuback,
    Disconnect,
    Auth,
}

impl PropertyScope {
    /// All scopes.
    pub const ALL: [Self; 14] = [
        Self::Connect,
        Self::Will,
        Self::Connack,
        Self::Publish,
        Self::Puback,
        Self::Pubrec,
        Self::Pubrel,
        Self::Pubcomp,
        Self::Subscribe,
        Self::Suback,
        Self::Unsubscribe,
        Self::Unsuback,
        Self::Disconnect,
        Self::Auth,
    ];

    pub(crate) const fn bit(self) -> u16 {
        1 << self as u8
    }
}

const CONNECT: u16 = PropertyScope::Connect.bit();
const WILL: u16 = PropertyScope::Will.bit();
const CONNACK: u16 = PropertyScope::Connack.bit();
const PUBLISH: u16 = PropertyScope::Publish.bit();
const SUBSCRIBE: u16 = PropertyScope::Subscribe.bit();
const DISCONNECT: u16 = PropertyScope::Disconnect.bit();
const AUTH: u16 = PropertyScope::Auth.bit();
const EVERYWHERE: u16 = (1 << PropertyScope::ALL.len()) - 1;
/// Reason String stands in every answer, and in DISCONNECT and AUTH.
const ANSWERS: u16 = CONNACK
    | PropertyScope::Puback.bit()
    | PropertyScope::Pubrec.bit()
    | PropertyScope::Pubrel.bit()
    | PropertyScope::Pubcomp.bit()
    | PropertyScope::Suback.bit()
    | PropertyScope::Unsuback.bit()
    | DISCONNECT
    | AUTH;

macro_rules! property_ids {
    ($($name:ident = $byte:literal, $scopes:expr;)*) => {
        /// Identifier of a property.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs)] // the names are the standard's own
        pub enum PropertyId { $($name = $byte,)* }

        impl PropertyId {
            /// All identifiers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// `None` for identifiers that v5 does not define.
            #[must_use]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$name),)*
                    _ => None,
                }
            }

            const fn scopes(self) -> u16 {
                match self { $(Self::$name => $scopes,)* }
            }
        }
    };
}

property_ids! {
    PayloadFormatIndicator = 0x01, PUBLISH | WILL;
    MessageExpiryInterval = 0x02, PUBLISH | WILL;
    ContentType = 0x03, PUBLISH | WILL;
    ResponseTopic = 0x08, PUBLISH | WILL;
    CorrelationData = 0x09, PUBLISH | WILL;
    SubscriptionIdentifier = 0x0B, PUBLISH | SUBSCRIBE;
    SessionExpiryInterval = 0x11, CONNECT | CONNACK | DISCONNECT;
    AssignedClientIdentifier = 0x12, CONNACK;
    ServerKeepAlive = 0x13, CONNACK;
    AuthenticationMethod = 0x15, CONNECT | CONNACK | AUTH;
    AuthenticationData = 0x16, CONNECT | CONNACK | AUTH;
    RequestProblemInformation = 0x17, CONNECT;
    WillDelayInterval = 0x18, WILL;
    RequestResponseInformation = 0x19, CONNECT;
    ResponseInformation = 0x1A, CONNACK;
    ServerReference = 0x1C, CONNACK | DISCONNECT;
    ReasonString = 0x1F, ANSWERS;
    ReceiveMaximum = 0x21, CONNECT | CONNACK;
    TopicAliasMaximum = 0x22, CONNECT | CONNACK;
    TopicAlias = 0x23, PUBLISH;
    MaximumQos = 0x24, CONNACK;
    RetainAvailable = 0x25, CONNACK;
    UserProperty = 0x26, EVERYWHERE;
    MaximumPacketSize = 0x27, CONNECT | CONNACK;
    WildcardSubscriptionAvailable = 0x28, CONNACK;
    SubscriptionIdentifierAvailable = 0x29, CONNACK;
    SharedSubscriptionAvailable = 0x2A, CONNACK;
}

impl PropertyId {
    /// Whether the property may stand in this place.
    #[must_use]
    pub const fn allowed_in(self, scope: PropertyScope) -> bool {
        self.scopes() & scope.bit() != 0
    }

    /// Whether it may stand there more than once: User Property everywhere, Subscription Identifier in PUBLISH.
    #[must_use]
    pub const fn repeatable_in(self, scope: PropertyScope) -> bool {
        match self {
            Self::UserProperty => true,
            Self::SubscriptionIdentifier => matches!(scope, PropertyScope::Publish),
            _ => false,
        }
    }

    /// Whether a server hands it on unchanged with the message: v5 [MQTT-3.3.2-4], v5 [MQTT-3.3.2-15],
    /// v5 [MQTT-3.3.2-16], v5 [MQTT-3.3.2-17], v5 [MQTT-3.3.2-20].
    #[must_use]
    pub const fn passes_through(self) -> bool {
        matches!(
            self,
            Self::PayloadFormatIndicator
                | Self::ContentType
                | Self::ResponseTopic
                | Self::CorrelationData
                | Self::UserProperty
        )
    }

    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }
}
