// Possible changes as rows: a button, and the result as three numbers with an interval.

import { codeButtons } from "../shared/code.js";
import { button, make } from "../shared/dom.js";
import { counted } from "../shared/format.js";
import { kept } from "../shared/kept.js";
import { menu } from "../shared/menu.js";

const CHANGING = ["rows", "sentence", "assumed", "begun", "copies", "busy"];
/** Uses the class of number columns, to be aligned right as they are. */
const TRY_HEADINGS = [["What if"], ["P95 age", "sl-number"], ["Drains in", "sl-number"], ["Difference of p95 age (95 %)"]];
/** Size of the small picture of an interval, in pixels. */
const [WIDE, HIGH] = [70, 14];

function build({ model, get, root, voice }) {
  const body = make("tbody");
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...TRY_HEADINGS.map(([text, kind]) => make("th", { scope: "col", class: kind }, text)), make("td"))), body);
  const said = make("p", { class: "sl-soft", role: "status" });
  const below = make("div");

  function paint() {
    const had = body.contains(document.activeElement) ? document.activeElement.dataset.act : "";
    const reach = Math.max(...get("rows").flatMap(({ span }) => span.map(Math.abs)), 1);
    body.replaceChildren(...get("rows").map((row) => rowOf(row, reach)));
    const busy = get("busy") && `Simulating ${get("busy")} ...`;
    const assumed = get("assumed");
    const facts = !assumed.length ? [make("p", { class: "sl-soft" }, get("begun"))] : [make("details", {}, make("summary", {}, `${get("begun")} It assumes ${counted(assumed.length, "thing")}.`), make("ul", {}, ...assumed.map((text) => make("li", {}, make("bdi", {}, text)))))];
    said.replaceChildren(make("bdi", {}, busy || get("sentence")));
    said.hidden = !said.textContent;
    below.replaceChildren(...facts);
    if (had) body.querySelector(`[data-act="${had}"]:not(:disabled)`)?.focus();
  }
  function rowOf({ name, words, why, age, drains, difference, verdict, span }, reach) {
    const isRunning = get("busy") === words;
    // Both buttons stand in the same place: the second click of a double click on one is not for the other.
    const send = (act) => ({ detail }) => detail > 1 || model.send({ act });
    const act = isRunning ? button("Cancel", send("cancel"), { data: { act: name } })
      : button(words, send(name), { data: { act: name }, disabled: Boolean(get("busy") || why), title: why });
    const copies = get("copies").filter(([of]) => of === name).map(([, code]) => ["Copy the Python behind this", code]);
    const found = difference ? [...(span.length ? [picture(span, reach, verdict)] : []), " ", make("strong", {}, difference), " ", make("span", { class: "sl-soft" }, verdict)]
      : [make("span", { class: "sl-soft" }, why)];
    return make("tr", { data: { name } },
      make("th", { scope: "row" }, name ? act : words), make("td", { class: "sl-number" }, age), make("td", { class: "sl-number" }, drains),
      make("td", {}, ...found), make("td", {}, ...(copies.length ? [menu(`More on ${words}`, ...codeButtons(root, voice, below, copies, true))] : [])));
  }
  return { elements: [make("div", { class: "sl-wide" }, table), said, below], paint };
}

/** Low, mean and high on a line with 0 in the middle; the text beside it has the same numbers. */
function picture(span, reach, verdict) {
  const [low, mean, high] = span.map((value) => (WIDE / 2) * (1 + (0.94 * value) / reach));
  // Parsed as HTML, which sets the namespace of SVG; only numbers are inserted.
  const svg = document.createRange().createContextualFragment(`<svg viewBox="0 0 ${WIDE} ${HIGH}" width="${WIDE}" height="${HIGH}" aria-hidden="true"><path d="M${WIDE / 2} 0v${HIGH}" class="sl-zero"/><path d="M${low} ${HIGH / 2}H${high}" class="sl-range"/><circle cx="${mean}" cy="${HIGH / 2}" r="3.5"/></svg>`).firstChild;
  svg.dataset.verdict = verdict;
  return svg;
}

export default kept("tries", CHANGING, build, "What if");
