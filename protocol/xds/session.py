"""One client's ADS conversation: an immutable value that is stepped by requests and pushes.

Both protocols share this front; what differs is in `sotw.py` and `delta.py`, what is the same for all types in
`subscription.py`, and what differs between types is data (`types.TypeRules`).
"""
