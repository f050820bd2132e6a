"""Checks: share groups judged by the rules of a file, as `sharelag check` judges them.

rules = sharelag.checks.read_rules(Path("rules.yaml"))
sharelag.checks.check(source, rules).table
"""

from sharelag.monitoring.checks.judge import CHECKED, CODES, Checked, check, check_reading
from sharelag.monitoring.checks.rules import Rule, Rules, Silence, parse_rules, read_rules

__all__ = [
    "CHECKED", "CODES", "Checked", "Rule", "Rules", "Silence", "check", "check_reading",
    "parse_rules", "read_rules",
]  # fmt: skip
