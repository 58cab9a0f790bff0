//! The table: every setting there is.
//!
//! The defaults of limits are those that a broker needs in front of clients it does not know. A doc comment says what
//! the setting is for and what a larger value costs; it is the text of `--help` and of the reference page.

use crate::value::{
    ByteSize, ClientCertificates, ClientIdPattern, Durability, IdentityFrom, Keep, Landlock,
    ListenerProtocol, LogFormat, LogLevel, Login, Network, Overflow, Placement, SharedStrategy,
    TlsVersion, TopicFilter, WebOrigin,
};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The most that the remaining length of an MQTT packet can say (v5 section 1.5.5).
const REMAINING_LENGTH_MAX: u64 = 268_435_455;
/// The most bytes of an MQTT string.
const STRING_BYTES_MAX: u64 = 65_535;
/// Packet ids that a session's own stream uses (M30).
const SESSION_PACKET_IDS: u16 = 32_767;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn loopback(port: u16) -> Vec<SocketAddr> {
    vec![
        (Ipv4Addr::LOCALHOST, port).into(),
        (Ipv6Addr::LOCALHOST, port).into(),
    ]
}

settings! {
    /// Threads of the process.
    server: Server {
        /// Shards (threads that serve connections). 0 makes one for each core.
        shards: u16 = 0, in 0..=256, applies = Restart;
        /// Binds each shard to a core of its own. Good on a machine that serves nothing else.
        pin_shards: bool = false, applies = Restart;
        /// On which shard a connection is served. "gather" takes less for few connections, and leaves all of their work to one core.
        placement: Placement = Placement::Home, applies = Restart;
    }

    /// The data folder.
    data: Data {
        /// Folder of all files that the broker writes.
        path: PathBuf = PathBuf::from("data"), applies = Restart;
        /// Where sessions, their messages and retained messages are kept. "memory" writes no file at all.
        store: Keep = Keep::Disk, applies = Restart;
    }

    /// What the process may do, whoever is in it. See docs/security.md.
    sandbox: Sandbox {
        /// Whether the kernel keeps it from all files but those that it needs (Landlock): "auto" where the kernel can, "required" stops the start where it cannot.
        landlock: Landlock = Landlock::Auto, applies = Restart;
        /// Files and folders that it may read besides: those that settings will name after a reload.
        read: Vec<String> = Vec::new(), applies = Restart;
    }

    /// The log: one for the whole data folder, synced before anything is acknowledged that is not of a weaker `[[class]]`.
    log: Log {
        /// Bytes of one segment, a file of the log. Smaller ones give space back sooner and are changed more often.
        segment_bytes: ByteSize = ByteSize::mib(64), in ByteSize::mib(1)..=ByteSize::gib(4), applies = Restart;
        /// Free bytes on the disk below which publishes are refused, so that acknowledgements still get through. 0 is four segments; less than three is taken as three.
        reserve_bytes: ByteSize = ByteSize::new(0), in ByteSize::new(0)..=ByteSize::gib(1024), applies = Restart;
        /// Bytes of log after which the state of every partition is written anew. Larger: less is written, and a start after a crash takes longer.
        checkpoint_bytes: ByteSize = ByteSize::mib(256), in ByteSize::mib(1)..=ByteSize::gib(1024), applies = Restart;
        /// Not of the log in the data folder, but of the lines that the server writes to standard error about what happens to it: their form.
        format: LogFormat = LogFormat::Text, applies = AtOnce;
        /// How much these lines say. "debug" has a line for each client that comes or goes.
        level: LogLevel = LogLevel::Info, applies = AtOnce;
    }

    /// Backups, which `courser backup create` makes.
    backup: Backup {
        /// Bytes that a backup reads and writes in a second at most. More: it is done sooner, and takes more of the disk from clients.
        bytes_per_second: ByteSize = ByteSize::mib(64), in ByteSize::kib(64)..=ByteSize::gib(64), applies = AtOnce;
        /// Folders that the server may write backups to, and to folders in them. They must be there when it starts. Empty: it makes no backups.
        folders: Vec<String> = Vec::new(), applies = Restart;
    }

    /// The scrub: what is on the disk is read and checked in the background, so that damage is found while there is still another copy of it.
    scrub: Scrub {
        /// Time in which every segment of the log that is not written any more is read once, and so are checkpoints with their manifests and the files node and repair. Shorter: damage is found sooner, and more is read. "0s" reads only segments of which something could not be read for a client.
        period: Duration = 7 * DAY, in Duration::ZERO..=365 * DAY, applies = AtOnce;
    }

    /// Memory of the process. What happens near the limit is in docs/limits.md.
    memory: Memory {
        /// Bytes that the process may have allocated. Messages that wait may have a third of it, retained messages a sixth. "0B" is 60 % of what the control group or else the machine has, and up to three quarters where less would serve nobody.
        max: ByteSize = ByteSize::new(0), in ByteSize::new(0)..=ByteSize::gib(1024), applies = Restart;
    }

    /// Limits of all listeners.
    listeners: Listeners {
        /// Connections at once, at all listeners together. More are closed right after they are accepted.
        connections_max: u32 = 100_000, in 1..=10_000_000, applies = AtOnce;
        /// Connections at once from one address, of IPv6 from one /64, at each listener that says nothing else. More are closed right after they are accepted. 0 is no limit. Not set: 10,000, and no limit for programs of this machine (loopback).
        address_connections_max: Option<u32> = None, in Some(0)..=Some(10_000_000), applies = Restart;
        /// New connections a second from one address, of IPv6 from one /64, at each listener that says nothing else; as many may come at once. More are closed right after they are accepted, before any handshake. 0 is no limit. Not set: 500, and no limit for programs of this machine (loopback).
        address_connects_per_second: Option<u32> = None, in Some(0)..=Some(1_000_000), applies = Restart;
        /// New connections a second at each listener that says nothing else, from all addresses together; as many may come at once. More are closed right after they are accepted, before any handshake. 0 is no limit.
        connects_per_second: u32 = 0, in 0..=1_000_000, applies = Restart;
    }

    /// Limits of clients for whom neither their user, its roles nor the domain say something else: one of the same name there goes before, also a higher one. See docs/security.md.
    limits: Limits {
        /// Messages a second that one client may publish, with a burst of one second, on all its connections, one after another or at once; it is read less then, and nothing is lost. Also of clients that do not log in. 0 is no limit.
        messages_per_second: u32 = 0, in 0..=1_000_000_000, applies = AtOnce;
        /// Bytes of topic, properties and payload a second that one client may publish, likewise. "0B" is no limit.
        bytes_per_second: ByteSize = ByteSize::new(0), in ByteSize::new(0)..=ByteSize::mib(4_095), applies = AtOnce;
        /// Clients of one user that are connected at once, by client id. More are refused; who is there stays. Clients that do not log in have no user and are not counted: for them there is `listeners.address_connections_max`. 0 is no limit.
        connections: u32 = 0, in 0..=10_000_000, applies = AtOnce;
        /// Sessions of one user that outlive their connections, those with a connection among them. One more is refused; those that are there stay, and are taken up. Sessions of clients that do not log in have no user and are not counted. 0 is no limit.
        sessions: u32 = 0, in 0..=10_000_000, applies = AtOnce;
    }

    /// Logins that fail: wrong passwords, proofs and tokens, of clients at all listeners and of operators. See docs/security.md.
    login_failures: LoginFailures {
        /// Failures of one address, of IPv6 of one /64, that cost it nothing: from that one on it waits after each, also with what is right. All clients of Unix sockets are one. Larger: as many more guesses. 0 is no limit.
        address_max: u32 = 5, in 0..=1_000_000, applies = AtOnce;
        /// How long an address waits first. Each further failure doubles it.
        wait_first: Duration = Duration::from_secs(1), in Duration::from_millis(100)..=Duration::from_secs(3600), applies = AtOnce;
        /// The longest that an address waits. Longer: fewer guesses, and whoever shares the address with somebody who goes on with a wrong password is kept out for as long; and no more than 65,536 addresses wait at once, so that who makes so many wait keeps all others out, at ten minutes with some 110 wrong passwords a second, at an hour with some 18.
        wait_max: Duration = Duration::from_secs(60), in Duration::from_millis(100)..=DAY, applies = AtOnce;
        /// Time without a failure after which an address is as good as new.
        forget_after: Duration = Duration::from_secs(600), in Duration::from_secs(1)..=30 * DAY, applies = AtOnce;
    }

    /// What operators use: API, metrics, health.
    http: Http {
        /// Addresses that serve the API, `/metrics`, `/healthz` and `/readyz` over HTTP. An empty list turns it off; the socket `admin.sock` in the data folder stays.
        listen: Vec<SocketAddr> = loopback(18080), applies = Restart;
        /// File with the token that gives access to the API, mode 0600, made at the first start. Empty: `admin.token` in the data folder.
        token_file: String = String::new(), applies = Restart;
    }

    /// JSON Web Tokens, for `authentication = "tokens"`.
    tokens: Tokens {
        /// File with the keys of who signs tokens, a JSON Web Key Set. Read again when it changes.
        key_set: Option<PathBuf> = None, applies = Restart;
        /// Files (PEM) with a public key each: RSA is for RS256, P-256 for ES256, Ed25519 for EdDSA. Read again when they change.
        public_keys: Vec<String> = Vec::new(), applies = Restart;
        /// File whose bytes are the secret of tokens by HS256, 32 or more, without an end of line. Read again when it changes.
        secret_file: Option<PathBuf> = None, applies = Restart;
        /// Audiences that are this broker: a token must name one of them in `aud`. There must be one where clients come with tokens.
        audience: Vec<String> = Vec::new(), applies = Restart;
        /// Issuers that count: a token must name one of them in `iss`. Empty: all whose keys are here. Which key signed says nothing of the issuer: whoever has one of the keys can name each of these.
        issuers: Vec<String> = Vec::new(), applies = Restart;
        /// Time by which the clocks of the issuer and of this machine may differ.
        leeway: Duration = Duration::from_secs(30), in Duration::ZERO..=Duration::from_secs(300), applies = Restart;
        /// The claim with the name of the user, the same names as those of accounts: not one that users can choose. One that begins with "/" is a JSON pointer into the claims.
        user_claim: String = "sub".to_owned(), applies = Restart;
        /// The claim with names of roles, a list or a text with spaces between them; one that begins with "/" is a JSON pointer. Empty: no claim names roles. A name that is a role here gives that role, also "admin".
        roles_claim: String = String::new(), applies = Restart;
        /// Roles of everybody who comes with a token.
        roles: Vec<String> = Vec::new(), applies = Restart;
    }

    /// MQTT 3.1.1 and 5.0.
    mqtt: Mqtt {
        /// Addresses that accept MQTT over TCP. An empty list turns it off.
        listen: Vec<SocketAddr> = loopback(1883), applies = Restart;
        /// How clients of these addresses prove who they are. An address that other machines can reach needs accounts or tokens.
        authentication: Login = Login::None, applies = Restart;
        /// Client ids that the clients of a user may have: `%u` is the user name, `*` (once at most) is any text, and nothing else is special. One that is not among them is refused with 0x85; 3.1.1: 2. A client that leaves its client id to the server gets one. Where nobody logs in there is no user. Empty: all, as `["*"]`; that of another user's session or connection is refused in any case. See docs/security.md.
        client_ids: Vec<ClientIdPattern> = Vec::new(), applies = Restart;
        /// Where clients find these addresses from outside, `HOST[:PORT]`: what lies before the broker may change both. Operators see it with the listener.
        advertised: Option<String> = None, applies = AtOnce;
        /// Largest packet that a client may send, and the Maximum Packet Size that CONNACK tells.
        packet_bytes_max: ByteSize = ByteSize::mib(1), in ByteSize::kib(1)..=ByteSize::new(REMAINING_LENGTH_MAX), applies = NewConnections;
        /// Largest client identifier.
        client_id_bytes_max: ByteSize = ByteSize::new(1024), in ByteSize::new(23)..=ByteSize::new(STRING_BYTES_MAX), applies = NewConnections;
        /// Largest topic name or topic filter.
        topic_bytes_max: ByteSize = ByteSize::new(4096), in ByteSize::new(1)..=ByteSize::new(STRING_BYTES_MAX), applies = NewConnections;
        /// Most levels of a topic name or topic filter.
        topic_levels_max: u16 = 128, in 1..=1024, applies = NewConnections;
        /// Most user properties of one packet.
        user_properties_max: u16 = 64, in 0..=10_000, applies = NewConnections;
        /// Most bytes of all user properties of one packet.
        user_properties_bytes_max: ByteSize = ByteSize::kib(16), in ByteSize::new(0)..=ByteSize::mib(16), applies = NewConnections;
        /// Topic aliases that a client may set, and the most that the broker sets. Each costs the bytes of its topic.
        topic_alias_max: u16 = 32, in 0..=u16::MAX, applies = NewConnections;
        /// Publishes of QoS 1 and 2 that one client may have under way to the broker.
        receive_maximum: u16 = 1024, in 1..=u16::MAX, applies = NewConnections;
        /// Publishes of QoS 1 and 2 that the broker has under way to one client, whatever more that client allows.
        outbound_window_max: u16 = 1024, in 1..=SESSION_PACKET_IDS, applies = NewConnections;
        /// Longest keep-alive in seconds. A client of MQTT 5.0 that asks for a longer one, or for none, gets this one; one of 3.1.1 cannot be told, and keeps its own. 0 is no limit.
        keep_alive_max_seconds: u16 = 0, in 0..=u16::MAX, applies = NewConnections;
        /// Time for CONNECT to arrive whole.
        connect_timeout: Duration = Duration::from_secs(5), in Duration::from_millis(100)..=Duration::from_secs(300), applies = NewConnections;
        /// Largest CONNECT packet, which arrives before anyone has logged in.
        connect_bytes_max: ByteSize = ByteSize::kib(16), in ByteSize::new(64)..=ByteSize::mib(1), applies = NewConnections;
        /// Bytes that may wait to be written to one client. Above it QoS 0 is dropped and counted, QoS 1 and 2 waits in the session.
        output_bytes_max: ByteSize = ByteSize::mib(1), in ByteSize::kib(64)..=ByteSize::gib(1), applies = NewConnections;
        /// Subscriptions of one session.
        subscriptions_max: u32 = 10_000, in 1..=10_000_000, applies = AtOnce;
        /// Shared ones among them: each has a queue of its own, which every message that matches is put into.
        shared_subscriptions_max: u32 = 256, in 0..=10_000_000, applies = AtOnce;
        /// Bytes of the filters and share names that one session has subscribed to.
        subscription_bytes_max: ByteSize = ByteSize::mib(1), in ByteSize::kib(1)..=ByteSize::gib(1), applies = AtOnce;
        /// Longest session expiry interval, also for the kept sessions of MQTT 3.1.1. "0s" ends every session with its connection.
        session_expiry_max: Duration = 7 * DAY, in Duration::ZERO..=36_500 * DAY, applies = NewConnections;
        /// How a shared subscription picks the member that gets a message. A group that is there keeps the one it began with.
        shared_strategy: SharedStrategy = SharedStrategy::RoundRobin, applies = NewSessions;
        /// Highest QoS of what clients publish and leave as a will. Above it their connection ends or is refused; a subscription gets this one instead. What clients have subscribed to before stays.
        qos_max: u16 = 2, in 0..=2, applies = NewConnections;
        /// Whether clients may store retained messages.
        retain_available: bool = true, applies = NewConnections;
        /// Whether clients may subscribe to filters with wildcards. Those that are subscribed to stay.
        wildcard_subscriptions_available: bool = true, applies = NewConnections;
        /// Whether clients of MQTT 5.0 may give their subscriptions identifiers. Those that are given stay.
        subscription_identifiers_available: bool = true, applies = NewConnections;
        /// Whether clients may subscribe to `$share/NAME/FILTER`. Those that are subscribed to stay.
        shared_subscriptions_available: bool = true, applies = NewConnections;
        /// What clients of MQTT 5.0 get that ask for Response Information, such as the first levels of topics for answers. Empty: nothing.
        response_information: String = String::new(), applies = NewConnections;
        /// Sends all clients elsewhere: host names with optional ports, separated by spaces. Clients of 5.0 are told, others are refused. Empty: nobody is sent away.
        redirect_to: String = String::new(), applies = NewConnections;
        /// Whether clients that are sent elsewhere should stay there (0x9D) or come again later (0x9C).
        redirect_permanently: bool = false, applies = NewConnections;
    }

    /// Messages that wait for one session.
    session: Session {
        /// Messages that may wait for one session before its overflow policy applies. Larger: more memory for each absent client.
        queue_messages_max: u32 = 100_000, in 1..=10_000_000, applies = AtOnce;
        /// Bytes that may wait for one session before its overflow policy applies.
        queue_bytes_max: ByteSize = ByteSize::mib(16), in ByteSize::kib(1)..=ByteSize::gib(1024), applies = AtOnce;
        /// How long a message may wait for a session, or in a shared group. Then it is dropped and counted, unless it is under way. "0s" is no limit.
        queue_age_max: Duration = Duration::ZERO, in Duration::ZERO..=36_500 * DAY, applies = AtOnce;
        /// Bytes of waiting messages that may be in memory. Older ones are only in the log and are read back when they are wanted; those that were retained stay. 0, and at most: a quarter of `memory.max`.
        hot_bytes: ByteSize = ByteSize::new(0), in ByteSize::new(0)..=ByteSize::gib(1024), applies = AtOnce;
        /// What happens to a message for a session that is full. Messages under way are never dropped.
        overflow: Overflow = Overflow::DropNewest, applies = AtOnce;
    }

    /// Retained messages.
    retained: Retained {
        /// Most retained messages. A publish that would exceed it is refused as over quota.
        messages_max: u32 = 1_000_000, in 0..=1_000_000_000, applies = AtOnce;
        /// Most bytes of all retained messages.
        bytes_max: ByteSize = ByteSize::mib(256), in ByteSize::new(0)..=ByteSize::gib(1024), applies = AtOnce;
        /// How long a retained message is kept. Then it is forgotten and counted as dropped; the broker's own under `$SYS/` stay. "0s" is no limit.
        age_max: Duration = Duration::ZERO, in Duration::ZERO..=36_500 * DAY, applies = AtOnce;
        /// Largest payload that is retained.
        payload_bytes_max: ByteSize = ByteSize::mib(1), in ByteSize::new(0)..=ByteSize::new(REMAINING_LENGTH_MAX), applies = NewConnections;
    }

    /// The topics `$SYS/broker/…`.
    sys: Sys {
        /// Time between two publications. "0s" turns them off.
        interval: Duration = Duration::from_secs(10), in Duration::ZERO..=Duration::from_secs(3600), applies = AtOnce;
    }

    lists {
        /// What messages are promised, by where they are kept. The first filter that matches decides; where none does, messages are durable.
        [[class]] classes: Class by filter, at most 1_024, applies = Restart {
            /// Topic filter over the client id of a session, for what waits there, and over the topic name of a retained message.
            filter: TopicFilter, applies = Restart;
            /// What is promised before a message is acknowledged.
            class: Durability = Durability::Durable, applies = Restart;
        }

        /// Doors beside `mqtt.listen`: TLS, WebSocket, Unix sockets, connections that a proxy passes on.
        [[listener]] doors: Listener by name, at most 64, applies = Restart {
            /// What logs and errors call it.
            name: String, applies = Restart;
            /// What is spoken below MQTT.
            protocol: ListenerProtocol = ListenerProtocol::Mqtt, applies = Restart;
            /// Addresses and ports, of IPv4 and IPv6. Where neither this nor `unix` nor `activation` is given: this machine only, at the
            /// usual port, which is 8883 of mqtts, 8083 of ws and 8084 of wss.
            address: Vec<SocketAddr> = Vec::new(), applies = Restart;
            /// Path of a Unix socket. One that nobody listens on any more is replaced.
            unix: Option<PathBuf> = None, applies = Restart;
            /// Rights of the Unix socket's file, in octal digits.
            unix_mode: String = "660".to_owned(), applies = Restart;
            /// Name of a socket that systemd has opened (`FileDescriptorName=`).
            activation: Option<String> = None, applies = Restart;
            /// How clients prove who they are, instead of `mqtt.authentication`.
            authentication: Option<Login> = None, applies = Restart;
            /// Instead of `mqtt.client_ids`, unless it is empty.
            client_ids: Vec<ClientIdPattern> = Vec::new(), applies = Restart;
            /// Whether anyone may connect where other machines reach this listener and its clients prove nothing. The start is refused otherwise.
            insecure_anonymous: bool = false, applies = Restart;
            /// File (PEM) with the certificate and those that lead to its authority. What is in it is read again when it changes.
            certificate: Option<PathBuf> = None, applies = Restart;
            /// File (PEM) with the private key, not encrypted. What is in it is read again when it changes.
            key: Option<PathBuf> = None, applies = Restart;
            /// Lowest version of TLS.
            tls_version_min: TlsVersion = TlsVersion::V13, applies = Restart;
            /// Whether clients show certificates.
            client_certificates: ClientCertificates = ClientCertificates::Off, applies = Restart;
            /// File (PEM) with the authorities that sign client certificates. What is in it is read again when it changes.
            client_authorities: Option<PathBuf> = None, applies = Restart;
            /// File (PEM) with their revocation lists: a current one for each authority, or nobody is let in. What is in it is read again when it changes.
            client_revocations: Option<PathBuf> = None, applies = Restart;
            /// Which name in a client certificate says who the client is.
            identity: IdentityFrom = IdentityFrom::CommonName, applies = Restart;
            /// Path of the WebSocket request.
            path: String = "/mqtt".to_owned(), applies = Restart;
            /// Origins of web pages that may connect, each as browsers send it: scheme, host, and port unless it is the usual one, such as `"https://example.org"`; or `"null"`. Empty: all, but where nobody logs in (and `insecure_anonymous` is not set) only pages of this machine: of `localhost` or a loopback address, asked for by one.
            origins: Vec<WebOrigin> = Vec::new(), applies = Restart;
            /// Proxies that send a PROXY header, version 1 or 2, by address or network. Only they may connect then, and all of them must send one. Empty: no header is read.
            proxies: Vec<Network> = Vec::new(), applies = Restart;
            /// Time for PROXY header, TLS and WebSocket together. CONNECT has its own after that.
            handshake_timeout: Duration = Duration::from_secs(5), in Duration::from_millis(100)..=Duration::from_secs(60), applies = Restart;
            /// Where clients find this listener from outside, `HOST[:PORT]`: what lies before the broker may change both. Operators see it with the listener.
            advertised: Option<String> = None, applies = AtOnce;
            /// Connections at once at this listener, beside `listeners.connections_max`. More are closed right after they are accepted.
            connections_max: Option<u32> = None, in Some(1)..=Some(10_000_000), applies = AtOnce;
            /// Instead of `listeners.address_connections_max`. 0 is no limit.
            address_connections_max: Option<u32> = None, in Some(0)..=Some(10_000_000), applies = Restart;
            /// Instead of `listeners.address_connects_per_second`. 0 is no limit.
            address_connects_per_second: Option<u32> = None, in Some(0)..=Some(1_000_000), applies = Restart;
            /// Instead of `listeners.connects_per_second`. 0 is no limit.
            connects_per_second: Option<u32> = None, in Some(0)..=Some(1_000_000), applies = Restart;
            /// Instead of `mqtt.packet_bytes_max`.
            packet_bytes_max: Option<ByteSize> = None, in Some(ByteSize::kib(1))..=Some(ByteSize::new(REMAINING_LENGTH_MAX)), applies = NewConnections;
            /// Instead of `mqtt.connect_bytes_max`.
            connect_bytes_max: Option<ByteSize> = None, in Some(ByteSize::new(64))..=Some(ByteSize::mib(1)), applies = NewConnections;
            /// Instead of `mqtt.connect_timeout`.
            connect_timeout: Option<Duration> = None, in Some(Duration::from_millis(100))..=Some(Duration::from_secs(300)), applies = NewConnections;
            /// Instead of `mqtt.receive_maximum`.
            receive_maximum: Option<u16> = None, in Some(1)..=Some(u16::MAX), applies = NewConnections;
            /// Instead of `mqtt.topic_alias_max`.
            topic_alias_max: Option<u16> = None, in Some(0)..=Some(u16::MAX), applies = NewConnections;
            /// Instead of `mqtt.keep_alive_max_seconds`. 0 is no limit.
            keep_alive_max_seconds: Option<u16> = None, in Some(0)..=Some(u16::MAX), applies = NewConnections;
            /// Instead of `mqtt.session_expiry_max`, and no longer than it.
            session_expiry_max: Option<Duration> = None, in Some(Duration::ZERO)..=Some(36_500 * DAY), applies = NewConnections;
            /// Instead of `mqtt.redirect_to`. Empty: clients of this listener are not sent away.
            redirect_to: Option<String> = None, applies = NewConnections;
        }
    }
}
