"""A plain page to show views in: fast, and this process is its kernel, which tests can mute."""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal

from comm.base_comm import BaseComm
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    ElementHandle,
    FloatRect,
    Locator,
    Page,
)

from tests.support.browser.chromium import open_page
from tests.support.kafka.jars import build_once, cache_dir

ROOT = Path(__file__).parents[3]
AXE_VERSION = "4.11.1"
_OURS = ("file:", "data:", "blob:", "http://127.0.0.1", "ws://127.0.0.1", "about:")
BIN = Path(sys.executable).parent
#: Returns the contrast of every text in sight, with the text.
CONTRAST = (ROOT / "widgets/tests/contrast.js").read_text("utf-8")

#: How many rules passed, and which did not, with their elements. Of the thousands that pass, axe
#: would make a selector each.
_AXE = """async within => {
    const runOnly = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
    const { passes, violations } = await axe.run(within, { runOnly, resultTypes: ['violations'] });
    return [passes.length, violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])]; }"""
#: What anywidget says of a model that was not there within two seconds, as on a busy machine. Its
#: view asks for the state again when it is there (`shared/hearing.js`), so it shows late, not less.
_SLOW = "[anywidget] Failed to initialize model."


Point = tuple[float, float]
Button = Literal["left", "middle"]


class Watched:
    """A page that notes every request that leaves the machine, and every complaint."""

    def __init__(self, browser: Browser, **settings: Any) -> None:
        self.page: Page = open_page(browser, viewport={"width": 1000, "height": 900}, **settings)
        self.context: BrowserContext = self.page.context
        self.outside: list[str] = []
        self.complaints: list[str] = []
        # Noted, not intercepted: to answer for each request takes seconds a page of JupyterLab,
        # and turns its cache off. The browser is started so that no foreign name resolves.
        self.page.on("request", lambda request: self._note_request(request.url))
        self.page.on("popup", lambda opened: self._note_request(opened.url))
        self.page.on("websocket", lambda socket: self._note_request(socket.url))
        self.page.on("console", self._note_error)
        self.page.on("pageerror", lambda error: self._note(error.stack or str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

    def forget_of_the_lab(self) -> None:
        """Forget complaints of JupyterLab's scripts about replaced outputs; ours run from blobs."""
        theirs = ("/static/lab/", "/lab/extensions/@jupyter-widgets/")
        self.complaints[:] = [
            said
            for said in self.complaints
            if "blob:" in said or not any(place in said for place in theirs)
        ]

    def assert_quiet(self) -> None:
        """No request left the machine, and nothing complained, since this was last asked."""
        outside, complaints = [*self.outside], [*self.complaints]
        self.outside.clear()
        self.complaints.clear()
        if outside or complaints:
            raise AssertionError(f"requests to others: {outside}; complaints: {complaints}")

    def _note(self, said: str) -> None:
        if _SLOW not in said:
            self.complaints.append(said)

    def _note_error(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self._note(said.text)

    def _note_request(self, url: str) -> None:
        if not url.startswith(_OURS):
            self.outside.append(url)


class Desk(Watched):
    """Views in a plain page, in order; what people do there reaches the views, and back."""

    def __init__(
        self, browser: Browser, folder: Path, *views: Any, paper: str = "", **settings: Any
    ) -> None:
        super().__init__(browser, **settings)
        self.views = {view.model_id or f"view-{n}": view for n, view in enumerate(views)}
        self._outbox: list[dict[str, Any]] = []
        for name, view in self.views.items():
            view.comm = _Wire(name, self._outbox)
        self.page.expose_function("toPython", self._receive)
        path = folder / "desk.html"
        path.write_text(
            _document([_sent(name, view) for name, view in self.views.items()], paper), "utf-8"
        )
        self.page.goto(path.as_uri())
        self.page.evaluate("window.ready")
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.sl')].every(view => view.dataset.loaded || "
            "view.dataset.failed)"
        )
        self.settle()

    def root(self, number: int = 0) -> Locator:
        """The frame of a view."""
        return self.page.locator(".sl").nth(number)

    def data(self, name: str, number: int = 0) -> Any:
        """What a view says of itself (data-...), after the next paint; as JSON where it is some."""
        self.settle()
        said = self.root(number).get_attribute(f"data-{name}")
        try:
            return None if said is None else json.loads(said)
        except json.JSONDecodeError:
            return said

    def press(self, *keys: str) -> None:
        """Press keys one after the other, and let the views paint."""
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def drag(
        self, start: Point, end: Point, *held: str, button: Button = "left", let_go: bool = True
    ) -> None:
        """Drag from a point of the page to another, with keys held, and let views paint."""
        mouse, keyboard = self.page.mouse, self.page.keyboard
        for key in held:
            keyboard.down(key)
        mouse.move(*start)
        mouse.down(button=button)
        mouse.move(*end, steps=6)
        self.settle()
        if let_go:
            mouse.up(button=button)
        for key in held:
            keyboard.up(key)
        self.settle()

    def show_again(self) -> None:
        """Show the first view once more, as another cell does; `stop_last` ends that."""
        self.page.evaluate("""async () => { const more = document.createElement('div');
            document.querySelector('main').append(more);
            await window.show(window.sent[0], more); }""")

    def stop_last(self) -> None:
        """End the view that was shown last."""
        self.page.evaluate("window.stops.at(-1)()")

    def listeners(self) -> int:
        """How many listeners the models of all views have."""
        found: int = self.page.evaluate("""() => Object.values(window.models)
            .flatMap(model => Object.values(model.listeners)).reduce((sum, set) => sum + set.size, 0)""")
        return found

    def find_unprotected(self) -> list[str]:
        """Return controls whose keys JupyterLab would take for shortcuts of its own."""
        found: list[str] = self.page.eval_on_selector_all(
            ".sl button, .sl input, .sl select, .sl [tabindex]",
            "all => all.filter(one => !('lmSuppressShortcuts' in one.dataset)).map(one => "
            "one.outerHTML)",
        )
        return found

    def silence(self) -> None:
        """From now on the kernel is gone."""
        self.page.evaluate("window.kernelGone = true")

    def settle(self) -> None:
        """Let Python's messages arrive, and the views paint."""
        if self._outbox:
            sent, self._outbox[:] = list(self._outbox), []
            self.page.evaluate("answers => take(answers)", sent)
        let_paint(self.page)

    def _receive(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        view = self.views[message["id"]]
        if "custom" in message:
            data: dict[str, Any] = {"method": "custom", "content": message["custom"]}
            buffers: list[bytes] = []
        else:
            names = list(message["buffers"])
            data = {"method": "update", "state": message["state"]}
            data["buffer_paths"] = [[name] for name in names]
            buffers = [base64.b64decode(message["buffers"][name]) for name in names]
        view._handle_msg(
            {"content": {"data": data}, "buffers": [memoryview(buffer) for buffer in buffers]}
        )
        sent, self._outbox[:] = list(self._outbox), []
        return sent


#: What the fixture ``open_desk`` is: it takes the views, and the settings of a page.
OpenDesk = Callable[..., Desk]


class _Wire(BaseComm):
    """The kernel's end of a view: what Python sends lies in the outbox."""

    def __init__(self, name: str, outbox: list[dict[str, Any]]) -> None:
        self.name, self.outbox = name, outbox
        super().__init__(target_name="jupyter.widget", comm_id=name)

    def publish_msg(
        self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any
    ) -> None:
        if msg_type != "comm_msg" or data["method"] == "echo_update":
            return
        binary = [base64.b64encode(bytes(buffer)).decode() for buffer in buffers or []]
        message: dict[str, Any] = {"id": self.name, "state": data.get("state", {})}
        names = [p[0] for p in data.get("buffer_paths", [])] or [str(n) for n in range(len(binary))]
        message["buffers"] = dict(zip(names, binary, strict=True))
        if data["method"] == "custom":
            message["custom"] = data["content"]
        self.outbox.append(message)


def _sent(name: str, view: Any) -> dict[str, Any]:
    state = view.get_state()
    buffers = {
        key: base64.b64encode(bytes(v)).decode() for key, v in state.items() if isinstance(v, bytes)
    }
    plain = {key: v for key, v in state.items() if key not in buffers and not key.startswith("_")}
    plain.pop("layout", None)
    code = {"esm": str(view._esm), "css": str(view._css)}
    return {"id": name, "state": plain, "buffers": buffers} | code


def _document(sent: list[dict[str, Any]], paper: str) -> str:
    models = json.dumps(sent).replace("<", "\\u003c")
    host = (ROOT / "widgets/tests/host.js").read_text("utf-8")
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Views</title>
<style>body {{ margin: 12px; {paper} }}</style></head><body><main><h1 style="font-size:1rem">Views</h1>
<h2 style="font-size:1rem">of share groups</h2></main>
<script>window.sent = {models};</script><script type="module">{host}</script></body></html>"""


def box_of(what: Locator | ElementHandle) -> FloatRect:
    """The place of what is in sight."""
    box = what.bounding_box()
    assert box is not None
    return box


def let_paint(page: Page) -> None:
    """Wait until views have painted what reached them: in one of the next two frames."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def faint_texts(page: Page, least: float = 4.5, within: str = ".sl") -> list[Any]:
    """Return texts in sight of less contrast to their paper: WCAG AA asks for 4.5, AAA for 7."""
    found = page.evaluate(CONTRAST.replace(".sl *", f"{within} *"))
    return [one for one in found if one[0] < least]


def axe_violations(page: Page, within: str = "body") -> list[tuple[str, list[str]]]:
    """What axe-core finds against WCAG 2.1 A and AA: rules, with the elements that break them."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe_core())
    passed, found = page.evaluate(_AXE, within)
    if passed < 5:
        raise AssertionError(f"axe looked at too little: {passed} rules passed")
    return [(rule, elements) for rule, elements in found]


@cache
def axe_core() -> str:
    """axe-core's script, fetched once by npm into the cache of the tests."""

    def fetch(folder: Path) -> None:
        if shutil.which("npm") is None:
            raise SystemExit(
                "npm is missing, which fetches axe-core for the tests: install Node.js 20 or newer"
            )
        command = ["npm", "install", "--prefix", str(folder)]
        command += ["--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([*command, f"axe-core@{AXE_VERSION}"], check=True, capture_output=True)

    folder = build_once(cache_dir() / f"axe-core-{AXE_VERSION}", fetch)
    return (folder / "node_modules/axe-core/axe.min.js").read_text("utf-8")


if __name__ == "__main__":
    axe_core()
