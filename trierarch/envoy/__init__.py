"""From the neutral model to Envoy's resources. Knows no Kubernetes shape."""
