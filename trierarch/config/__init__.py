"""Configuration objects: decoding, validation, and the immutable view of all of them."""
