"""The parts of a check: rule files, measures now and in the past, and the judgement."""
