//! Topic trie and match lists of the broker and of courser-router.
