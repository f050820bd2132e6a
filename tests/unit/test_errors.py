"""Is an error in a notebook the sentence that says what to do, and nothing else?"""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


def test_a_cell_that_fails_shows_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    failed = shell.run_cell("import sharelag; sharelag.open(engine='local').lag('nobody')")
    said = "".join(capsys.readouterr())
    assert said.strip() == f"InputError: {failed.error_in_exec}"
    assert "there is no state of share group 'nobody'" in said
    assert shell.user_ns["sharelag"] is not None
    shell.run_cell("1 / 0")
    assert "Traceback" in "".join(capsys.readouterr())  # of what is no error of ours, all is shown
