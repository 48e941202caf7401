"""Who is who, and what proves it: the certificate authority, tokens, authenticators. Pure: the time is given."""
