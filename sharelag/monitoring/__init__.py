"""Rules over what is known of groups, and figures for other systems."""
