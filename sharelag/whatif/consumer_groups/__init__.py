"""A consumer group with the same work as a share group: see `sharelag.whatif.consumer_group`."""
