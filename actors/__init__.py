"""The running system: supervised trio actors that share nothing but immutable messages."""
