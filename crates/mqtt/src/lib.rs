//! MQTT 3.1.1 and 5.0: codec and session fronts, without I/O.
