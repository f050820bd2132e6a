"""Settings of share groups on brokers, groups and clients, and their effective values. No I/O."""

from sharelag.model.settings.catalogue import CATALOGUE as CATALOGUE
from sharelag.model.settings.catalogue import DRAFT as DRAFT
from sharelag.model.settings.catalogue import LATER as LATER
from sharelag.model.settings.catalogue import Setting as Setting
from sharelag.model.settings.catalogue import catalogue as catalogue
from sharelag.model.settings.rules import Problem as Problem
from sharelag.model.settings.rules import Value as Value
from sharelag.model.settings.rules import check as check
from sharelag.model.settings.rules import check_all as check_all
from sharelag.model.settings.rules import differing as differing
from sharelag.model.settings.rules import each_in_force as each_in_force
from sharelag.model.settings.rules import effective as effective
from sharelag.model.settings.rules import in_force as in_force
from sharelag.model.settings.rules import lint_consumer as lint_consumer
from sharelag.model.settings.rules import parse as parse
from sharelag.model.settings.rules import unknown_properties as unknown_properties
