"""What-ifs: try assignors, members and settings on a share group, in virtual time.

    scenario = named("uneven")  # or sharelag.whatif.from_cluster.scenario_from(evidence)
    simulate(scenario, seed=0).summary
    compare(variants(scenario, assignors=["simple", "lag-aware-sticky"])).differences
    what_clears(scenario)                                       # assignors x members
    tune(scenario, ["age_p95<30s", "redelivered_share<1%"])     # settings and members that fit
    assign("simple", members, topics)                           # an assignor alone

Importing this is cheap: what a name needs (numpy, Arrow, the solver) is imported when the name is
first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sharelag.errors import unknown_name

if TYPE_CHECKING:
    from sharelag.whatif.assignors.group import Group
    from sharelag.whatif.assignors.registry import (
        ASSIGNORS,
        AssignorCheck,
        assign,
        assignor_descriptions,
        assignor_names,
        check_assignor,
        register,
    )
    from sharelag.whatif.autoscale import Fixed, Hpa, Keda, Pods, Policy, Rules, TargetAge
    from sharelag.whatif.clearing import Clearing, what_clears
    from sharelag.whatif.compare import Comparison, compare, compared, projected
    from sharelag.whatif.comparison.intervals import cost_against_age
    from sharelag.whatif.consumer_group import Moving, consumer_group_twin, should_move
    from sharelag.whatif.consumers import (
        Behaviour,
        ConsumerSettings,
        Limits,
        Member,
        Service,
        Settings,
    )
    from sharelag.whatif.fixed import what_if, with_assignment
    from sharelag.whatif.gallery import named, names
    from sharelag.whatif.grid import variants
    from sharelag.whatif.otherwise import Alert, Otherwise, otherwise
    from sharelag.whatif.past import Past
    from sharelag.whatif.scenario import (
        Burst,
        Costs,
        Fault,
        PartitionStart,
        Poison,
        Producer,
        Scenario,
        Topic,
    )
    from sharelag.whatif.scenario_json import from_json, to_json
    from sharelag.whatif.search import Found, Goal, fewest_members
    from sharelag.whatif.simulate import SimulationResult, simulate
    from sharelag.whatif.tune import Tuned, tune
    from sharelag.whatif.wanted import Wanted, members_wanted

__all__ = [
    "ASSIGNORS",
    "Alert",
    "AssignorCheck",
    "Behaviour",
    "Burst",
    "Clearing",
    "Comparison",
    "ConsumerSettings",
    "Costs",
    "Fault",
    "Fixed",
    "Found",
    "Goal",
    "Group",
    "Hpa",
    "Keda",
    "Limits",
    "Member",
    "Moving",
    "Otherwise",
    "PartitionStart",
    "Past",
    "Pods",
    "Poison",
    "Policy",
    "Producer",
    "Rules",
    "Scenario",
    "Service",
    "Settings",
    "SimulationResult",
    "TargetAge",
    "Topic",
    "Tuned",
    "Wanted",
    "assign",
    "assignor_descriptions",
    "assignor_names",
    "check_assignor",
    "compare",
    "compared",
    "consumer_group_twin",
    "cost_against_age",
    "fewest_members",
    "from_json",
    "members_wanted",
    "named",
    "names",
    "otherwise",
    "projected",
    "register",
    "should_move",
    "simulate",
    "to_json",
    "tune",
    "variants",
    "what_clears",
    "what_if",
    "with_assignment",
]

#: Where each name is, in this package.
_HOMES = {
    "assignors.group": "Group",
    "assignors.registry": "ASSIGNORS AssignorCheck assign assignor_descriptions assignor_names "
    "check_assignor register",
    "autoscale": "Fixed Hpa Keda Pods Policy Rules TargetAge",
    "clearing": "Clearing what_clears",
    "compare": "Comparison compare compared projected",
    "grid": "variants",
    "comparison.intervals": "cost_against_age",
    "consumer_group": "Moving consumer_group_twin should_move",
    "consumers": "Behaviour ConsumerSettings Limits Member Service Settings",
    "fixed": "what_if with_assignment",
    "gallery": "named names",
    "otherwise": "Alert Otherwise otherwise",
    "past": "Past",
    "scenario": "Burst Costs Fault PartitionStart Poison Producer Scenario Topic",
    "scenario_json": "from_json to_json",
    "search": "Found Goal fewest_members",
    "simulate": "SimulationResult simulate",
    "tune": "Tuned tune",
    "wanted": "Wanted members_wanted",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(unknown_name(name, __all__, f"module {__name__!r}"))


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Keep the function `simulate` when the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
