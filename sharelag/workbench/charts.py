"""The former name of `sharelag.charts`."""

import sys
import warnings

from sharelag import charts

warnings.warn(f"{__name__} is now {charts.__name__}", DeprecationWarning, stacklevel=2)
sys.modules[__name__] = charts
