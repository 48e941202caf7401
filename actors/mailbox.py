"""Mailboxes: two bounded lanes and a doorbell. To be filled in."""
