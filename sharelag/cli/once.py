"""Commands that refuse a repeated option of one value, where click takes the last one silently."""

from __future__ import annotations

from typing import ClassVar

import click


class _Once(click.Command):
    """The parsing that commands and groups of commands share."""

    #: What to do instead of repeating an option, where there is something better.
    _INSTEAD: ClassVar[dict[str, str]] = {
        "raw": "to read several files, put them in one folder and name that",
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
