"""Commands that refuse a repeated option of one value, where click takes the last one silently.

They stand in the help by what people want, each with its whole summary and an example.
"""

from __future__ import annotations

from typing import ClassVar

import click

#: What people want; the commands for it, each with an example that the recorded demo answers, or
#: that a cluster does.
SECTIONS: dict[str, dict[str, str]] = {
    "Begin": {
        "demo": "sharelag demo --no-report",
        "doctor": "sharelag doctor --bootstrap-server broker:9092",
        "capture": "sharelag capture saved --bootstrap-server broker:9092",
    },
    "See the lag and what stands behind it": {
        "lag": "sharelag lag --capture demo",
        "groups": "sharelag groups --capture demo",
        "members": "sharelag members --capture demo --group fulfilment",
        "windows": "sharelag windows --capture demo --group fulfilment",
        "progress": "sharelag progress --capture demo",
        "history": "sharelag history --capture demo --group fulfilment",
    },
    "Find the cause": {
        "explain": "sharelag explain --capture demo",
        "imbalance": "sharelag imbalance --capture demo --group fulfilment",
        "settings": "sharelag settings --capture demo",
        "brokers": "sharelag brokers --capture demo",
        "health": "sharelag health --capture demo",
        "reconcile": "sharelag reconcile --capture demo",
        "requests": "sharelag requests kafka-request.log",
        "consumed": "sharelag consumed console.txt",
        "metrics": "sharelag metrics http://broker:7071/metrics",
        "peek": "sharelag peek billing orders:0:7 --bootstrap-server b:9092",
        "dlq": "sharelag dlq --bootstrap-server broker:9092 --group billing",
        "decode": "sharelag decode --capture demo --group fulfilment",
    },
    "Decide what to do": {
        "simulate": "sharelag simulate --capture demo --group billing --members 4",
        "plan-reset": "sharelag plan-reset --capture slow --group slow --to-latest",
        "lint": "sharelag lint kafka-share-groups.sh --group billing --delete",
        "plan-delete": "sharelag plan-delete --capture slow --group slow",
    },
    "Keep watch": {
        "check": "sharelag check --rules rules.yaml --capture demo",
        "forecasts": "sharelag forecasts --ledger ledger --capture demo",
        "report": "sharelag report daily --capture demo",
        "export": "sharelag export serve --bootstrap-server broker:9092",
        "mcp": "sharelag mcp --capture demo",
    },
}


class _Once(click.Command):
    """The parsing that commands and groups of commands share."""

    #: What to do instead of repeating an option, where there is something better.
    _INSTEAD: ClassVar[dict[str, str]] = {
        "raw": "to read several files, put them in one folder and name that"
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; the first repeated option is wrong usage."""
        if not ctx.resilient_parsing:
            given = self.make_parser(ctx).parse_args(list(args))[2]
            seen: set[click.Parameter] = set()
            for one in given:
                is_single = isinstance(one, click.Option) and not (
                    one.multiple or one.is_flag or one.count
                )
                if one in seen and is_single:
                    instead = self._INSTEAD.get(
                        one.name or "", "run the command once for each, or leave all but one out"
                    )
                    name = max(one.opts, key=len)
                    raise click.UsageError(
                        f"{name} takes one value and is given more than once: {instead}.", ctx
                    )
                seen.add(one)
        return super().parse_args(ctx, args)


class Command(_Once):
    """A command whose options of one value are given once."""


class Group(_Once, click.Group):
    """A group of commands of this kind."""

    command_class = Command


class Grouped(Group):
    """A group of commands whose help has a section for each thing that people want."""

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections; every name has the same width."""
        widest = max(len(name) for name in self.commands)
        for heading, examples in SECTIONS.items():
            with formatter.section(heading):
                rows = []
                for name, example in examples.items():
                    about = self.commands[name].get_short_help_str(limit=1000)
                    rows += [(name.ljust(widest), about), ("", f"$ {example}")]
                formatter.write_dl(rows)
