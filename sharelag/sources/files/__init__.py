"""What was saved of a cluster: captures, archives, a broker's segments."""
