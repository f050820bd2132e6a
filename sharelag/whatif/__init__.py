"""What if the group were another one? Who would fetch what, as ``assign("simple", members, topics)`` tells.

Importing this is cheap: numpy and the solver are imported when an assignor needs them.
"""

from sharelag.whatif.assignors.registry import ASSIGNORS, assign, register

__all__ = ["ASSIGNORS", "assign", "register"]
