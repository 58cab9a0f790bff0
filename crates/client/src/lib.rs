//! The MQTT client behind courser pub, sub and bench.
