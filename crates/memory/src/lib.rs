//! Pooled buffers, the counting allocator and the memory budget.
