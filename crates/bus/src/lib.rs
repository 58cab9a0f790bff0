//! In-process topic router with MQTT-like keys.
