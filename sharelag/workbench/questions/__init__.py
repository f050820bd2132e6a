"""The questions of a workbench by subject: each module is a part of `Workbench`."""
