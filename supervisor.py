"""The supervision tree as a value, and `run()`: the running system on one screen. Imported by the serve command and tests."""
