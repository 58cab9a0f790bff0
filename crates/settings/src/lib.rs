//! Every setting of the broker, declared once.
