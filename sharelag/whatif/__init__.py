"""What-ifs: simulate a share group with other assignors, members or settings in virtual time.

    scenario = named("uneven")  # or sharelag.whatif.from_cluster.scenario_from(evidence)
    simulate(scenario, seed=0).summary
    compare(variants(scenario, assignors=["simple", "lag-aware-sticky"])).differences
    what_clears(scenario)                                       # assignors x members
    tune(scenario, ["age_p95<30s", "redelivered_share<1%"])     # settings and members that fit
    assign("simple", members, topics)                           # an assignor alone
    check_contract("simple"), rank_assignors(["sticky-spread"]) # on drawn groups and scenarios

Importing this package is cheap: numpy, Arrow and the solver are imported with the first name that
needs them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sharelag.errors import unknown_name

if TYPE_CHECKING:
    from sharelag.whatif.assignors.group import Group as Group
    from sharelag.whatif.assignors.jar import jar_assignor as jar_assignor
    from sharelag.whatif.assignors.registry import ASSIGNORS as ASSIGNORS
    from sharelag.whatif.assignors.registry import AssignorCheck as AssignorCheck
    from sharelag.whatif.assignors.registry import assign as assign
    from sharelag.whatif.assignors.registry import assignor_descriptions as assignor_descriptions
    from sharelag.whatif.assignors.registry import assignor_names as assignor_names
    from sharelag.whatif.assignors.registry import check_assignor as check_assignor
    from sharelag.whatif.assignors.registry import register as register
    from sharelag.whatif.assignors.walks import Breach as Breach
    from sharelag.whatif.assignors.walks import check_contract as check_contract
    from sharelag.whatif.autoscale import Fixed as Fixed
    from sharelag.whatif.autoscale import Hpa as Hpa
    from sharelag.whatif.autoscale import Keda as Keda
    from sharelag.whatif.autoscale import Pods as Pods
    from sharelag.whatif.autoscale import Policy as Policy
    from sharelag.whatif.autoscale import Rules as Rules
    from sharelag.whatif.autoscale import TargetAge as TargetAge
    from sharelag.whatif.clearing import Clearing as Clearing
    from sharelag.whatif.clearing import what_clears as what_clears
    from sharelag.whatif.compare import Comparison as Comparison
    from sharelag.whatif.compare import compare as compare
    from sharelag.whatif.compare import compared as compared
    from sharelag.whatif.comparison.intervals import cost_against_age as cost_against_age
    from sharelag.whatif.consumer_group import Moving as Moving
    from sharelag.whatif.consumer_group import consumer_group_twin as consumer_group_twin
    from sharelag.whatif.consumer_group import should_move as should_move
    from sharelag.whatif.consumers import Behaviour as Behaviour
    from sharelag.whatif.consumers import ConsumerSettings as ConsumerSettings
    from sharelag.whatif.consumers import Limits as Limits
    from sharelag.whatif.consumers import Member as Member
    from sharelag.whatif.consumers import Service as Service
    from sharelag.whatif.consumers import Settings as Settings
    from sharelag.whatif.fixed import what_if as what_if
    from sharelag.whatif.fixed import with_assignment as with_assignment
    from sharelag.whatif.gallery import named as named
    from sharelag.whatif.gallery import names as names
    from sharelag.whatif.grid import variants as variants
    from sharelag.whatif.horizon import Wanted as Wanted
    from sharelag.whatif.horizon import members_wanted as members_wanted
    from sharelag.whatif.otherwise import Alert as Alert
    from sharelag.whatif.otherwise import Otherwise as Otherwise
    from sharelag.whatif.otherwise import otherwise as otherwise
    from sharelag.whatif.past import Past as Past
    from sharelag.whatif.ranking import Ranking as Ranking
    from sharelag.whatif.ranking import rank_assignors as rank_assignors
    from sharelag.whatif.ranking import suite as suite
    from sharelag.whatif.scenario import Burst as Burst
    from sharelag.whatif.scenario import Costs as Costs
    from sharelag.whatif.scenario import Fault as Fault
    from sharelag.whatif.scenario import PartitionStart as PartitionStart
    from sharelag.whatif.scenario import Poison as Poison
    from sharelag.whatif.scenario import Producer as Producer
    from sharelag.whatif.scenario import Scenario as Scenario
    from sharelag.whatif.scenario import Topic as Topic
    from sharelag.whatif.scenario_json import from_json as from_json
    from sharelag.whatif.scenario_json import to_json as to_json
    from sharelag.whatif.search import Found as Found
    from sharelag.whatif.search import Goal as Goal
    from sharelag.whatif.search import fewest_members as fewest_members
    from sharelag.whatif.simulate import SimulationResult as SimulationResult
    from sharelag.whatif.simulate import simulate as simulate
    from sharelag.whatif.tune import Tuned as Tuned
    from sharelag.whatif.tune import tune as tune

#: The names of each module of this package.
_HOMES = {
    "assignors.group": "Group",
    "assignors.jar": "jar_assignor",
    "assignors.registry": "ASSIGNORS AssignorCheck assign assignor_descriptions assignor_names "
    "check_assignor register",
    "assignors.walks": "Breach check_contract",
    "autoscale": "Fixed Hpa Keda Pods Policy Rules TargetAge",
    "clearing": "Clearing what_clears",
    "compare": "Comparison compare compared",
    "grid": "variants",
    "comparison.intervals": "cost_against_age",
    "consumer_group": "Moving consumer_group_twin should_move",
    "consumers": "Behaviour ConsumerSettings Limits Member Service Settings",
    "fixed": "what_if with_assignment",
    "gallery": "named names",
    "horizon": "Wanted members_wanted",
    "otherwise": "Alert Otherwise otherwise",
    "past": "Past",
    "ranking": "Ranking rank_assignors suite",
    "scenario": "Burst Costs Fault PartitionStart Poison Producer Scenario Topic",
    "scenario_json": "from_json to_json",
    "search": "Found Goal fewest_members",
    "simulate": "SimulationResult simulate",
    "tune": "Tuned tune",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(unknown_name(name, __all__, f"module {__name__!r}"))


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """Keep the function `simulate` when the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
