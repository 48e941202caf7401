"""What the mesh configuration means and what Envoy is told. Pure, except `trierarch.cli`."""
