"""The xDS protocol as a sans-IO machine: requests in, events and responses out."""
