"""What autoscalers do, step by step: see `sharelag.whatif.autoscale` for the values that describe them."""
