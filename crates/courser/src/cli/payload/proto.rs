//! Message types of Protocol Buffers, and their JSON form.

use std::fs;
use std::path::Path;

use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

/// A message type of a file.
#[derive(Clone, Debug)]
pub(crate) struct MessageType(MessageDescriptor);

impl MessageType {
    /// The type that `FILE` or `FILE:MESSAGE` names. A file that ends in `.proto` is read with its imports, which are looked for beside it; any
    /// other is a set of descriptors. Without a name it must have one message type.
    ///
    /// # Errors
    /// When the file cannot be read or understood, or has no or no single such type.
    pub(super) fn find(named: &str) -> Result<Self, String> {
        let (file, name) = match named.rsplit_once(':') {
            Some((file, name)) if !Path::new(named).exists() => (file, Some(name)),
            Some(_) | None => (named, None),
        };
        let messages = messages_of(Path::new(file))?;
        let all = || {
            let names: Vec<&str> = messages.iter().map(MessageDescriptor::full_name).collect();
            names.join(", ")
        };
        let found = match name {
            Some(name) => messages
                .iter()
                .find(|it| it.full_name() == name || it.name() == name)
                .ok_or_else(|| format!("{file} has no message {name}; it has: {}", all()))?,
            None => match messages.as_slice() {
                [one] => one,
                [] => return Err(format!("{file} has no message")),
                _ => {
                    return Err(format!(
                        "{file} has several messages; name one as proto:{file}:MESSAGE: {}",
                        all()
                    ));
                }
            },
        };
        Ok(Self(found.clone()))
    }

    /// The bytes of a message whose JSON form is given.
    pub(super) fn encode(&self, json: &[u8]) -> Result<Vec<u8>, String> {
        let mut from = serde_json::Deserializer::from_slice(json);
        let message = DynamicMessage::deserialize(self.0.clone(), &mut from);
        let message = message.and_then(|message| from.end().map(|()| message));
        message
            .map(|message| message.encode_to_vec())
            .map_err(|error| format!("the message is no {} as JSON: {error}", self.0.full_name()))
    }

    /// The JSON form of a message, on one line.
    pub(super) fn show(&self, bytes: &[u8]) -> Result<String, String> {
        let no = |error: &dyn std::fmt::Display| format!("no {}: {error}", self.0.full_name());
        let message = DynamicMessage::decode(self.0.clone(), bytes).map_err(|error| no(&error))?;
        serde_json::to_string(&message).map_err(|error| no(&error))
    }
}

/// The outermost message types of a file, without those of its imports where it is a `.proto` file.
fn messages_of(file: &Path) -> Result<Vec<MessageDescriptor>, String> {
    let no = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    if file.extension().is_some_and(|it| it == "proto") {
        let folder = match file.parent() {
            Some(folder) if folder != Path::new("") => folder,
            Some(_) | None => Path::new("."),
        };
        let set = protox::compile([file], [folder]).map_err(|error| no(&error))?;
        let own = set.file.last().map(|it| it.name().to_owned());
        let pool = DescriptorPool::from_file_descriptor_set(set).map_err(|error| no(&error))?;
        let own = own.and_then(|name| pool.get_file_by_name(&name));
        return Ok(own.map_or_else(Vec::new, |own| own.messages().collect()));
    }
    let bytes = fs::read(file).map_err(|error| no(&error))?;
    let pool = DescriptorPool::decode(bytes.as_slice()).map_err(|error| {
        no(&format!(
            "neither a .proto file nor a set of descriptors: {error}"
        ))
    })?;
    Ok(pool
        .files()
        .flat_map(|it| it.messages().collect::<Vec<_>>())
        .collect())
}
