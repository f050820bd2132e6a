"""What autoscalers do, step by step; `sharelag.whatif.autoscale` has the values."""
