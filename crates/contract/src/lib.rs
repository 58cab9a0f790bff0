//! What fronts and homes of sessions say to each other: types only.
