"""The command line: `trierarch serve`, `why`, `bootstrap`, `validate`, `kill`."""
