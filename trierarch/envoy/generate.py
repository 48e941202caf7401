"""From a view of a snapshot to its `ResourceSet`s: which plan makes which part of which type, memoised.

    generate(view, scope, context, type_url, memo, previous) -> Steps[ResourceSet]

Each type is a chain of parts: the outbound view's, the inbound view's, the fixed ones. A plan narrows the snapshot to
units (`units.py`); the memo builds each unit once for all views that ask with equal inputs.
"""
