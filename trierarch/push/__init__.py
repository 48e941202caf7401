"""From configuration to a neutral model of the mesh, and who is affected by a change. Knows no Envoy type."""
