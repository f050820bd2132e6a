"""Parts of comparisons: measures, intervals, and sentences."""
