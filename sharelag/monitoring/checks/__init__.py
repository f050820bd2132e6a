"""What a check is made of: rules as people write them, measures now and in the past, and how they are judged."""
