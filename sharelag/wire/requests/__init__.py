"""Requests of share groups, as a broker's log has them."""
