// The what-if of an editor: run, progress, cancel, result; and the assignment itself as a table.

import { button, make, named, ownsKeys } from "./shared/dom.js";
import { counted, duration, number } from "./shared/format.js";
import { asRanges, verdictOf } from "./editor_math.js";

const MOST_ROWS = 500;
const GLYPHS = { better: "\u2714", worse: "\u2716", same: "=", unclear: "?" };

/** The elements, and the state of the run. `edited` returns the edits on the screen. */
export function runPanel({ model, link, say, later }) {
  // The pending request to Python, and whether the user cancelled a run that Python still reports.
  let [pending, given] = ["", false];
  const get = (name) => model.get(name);
  const run = button("Run the what-if", () => ask("run"), { class: "sl-go" });
  const cancel = button("Cancel", () => giveUp());
  const meter = make("progress", { "aria-label": "Progress of the what-if" });
  const status = make("span", { class: "sl-status" });
  const failure = make("p", { class: "sl-failure", role: "alert", hidden: true });
  const found = make("div", { class: "sl-found", role: "region", "aria-label": "Difference" });
  const element = make("div", { class: "sl-run" }, make("div", { class: "sl-bar" }, run, cancel, meter, status), found);

  const busy = () => pending !== "" || (get("state") === "running" && !given);
  // The traits may arrive after the message, so the message has the edits on the screen.
  function ask(what, value = true) {
    [pending, given] = [what, false];
    reach({ [what]: value, edits: get("edits"), at: get("at") });
  }
  function giveUp() {
    [pending, given] = ["", true];
    reach({ cancel: true });
  }
  function reach(message) {
    try {
      model.send(message);
    } catch {
      // The view's note reports that the kernel does not answer.
    }
    link.tell({});
    later();
  }
  const answered = () => ([pending, given] = ["", given && get("state") === "running"]);
  const answers = ["state", "edits", "failure", "progress"].map((trait) => `change:${trait}`);
  for (const event of answers) model.on(event, answered);

  const late = () => get("result").rows && get("result").of !== (get("edits")[get("at") - 1]?.id ?? "");
  function words() {
    const before = get("result").rows ? " What stands below is the result before." : " There is no result yet.";
    const [done, total] = get("progress");
    if (pending) return pending === "run" ? "Waiting for Python\u2026" : "Loading\u2026";
    if (get("state") === "running" && given) return `Cancelled: Python stops at its next step.${before}`;
    if (get("state") === "running") return total ? `Running: ${number(done)} of ${number(total)}` : "Running\u2026";
    if (get("state") === "cancelled") return `Cancelled.${before}`;
    if (get("state") === "failed") return `Failed.${before}`;
    if (late()) return "The assignment has changed since: the result below is of another one. Run it again.";
    return get("state") === "done" ? "Done." : "Not run yet.";
  }
  function write() {
    element.hidden = !get("runs");
    const locked = busy();
    run.disabled = locked;
    cancel.hidden = !locked;
    meter.hidden = !locked || pending === "load";
    const [done, total] = get("progress");
    if (total && pending === "") Object.assign(meter, { max: total, value: done });
    else meter.removeAttribute("value");
    const text = words();
    if (status.textContent !== text) {
      // Progress is only shown; the result is announced.
      if (status.textContent && !text.startsWith("Running: ")) say(text);
      status.textContent = text;
    }
    failure.hidden = !get("failure");
    if (failure.textContent !== get("failure")) failure.textContent = get("failure");
    const mark = JSON.stringify(get("result"));
    found.hidden = !get("result").rows;
    found.classList.toggle("sl-late", Boolean(late()) || locked);
    if (found.dataset.mark === mark) return;
    found.dataset.mark = mark;
    found.replaceChildren(...(get("result").rows ? resultOf(get("result")) : []));
  }
  return { element, failure, busy, ask, write, stop: () => answers.forEach((event) => model.off(event, answered)) };
}

/** The difference: measures side by side, seeds, assumptions. */
function resultOf({ rows, seeds, assumed, range, about = "" }) {
  const heads = ["Measure", "", "Baseline", "Edited", "Change", range, ""];
  const ranged = rows.some(({ low, high }) => low !== null && high !== null && seeds.length > 1);
  const kept = (cells) => cells.filter((_, n) => n !== 5 || ranged);
  const head = make("tr", {}, ...kept(heads.map((text, n) => (n === 1 ? make("td", { class: "sl-pair" }) : n === 6 ? make("th", { scope: "col" }, "So it is") : make("th", { scope: "col", class: n > 1 ? "sl-number" : "" }, text)))));
  const body = make("tbody", {}, ...rows.map((row) => make("tr", { data: { verdict: verdictOf(row) } }, ...kept(cellsOf(row)))));
  const caption = `${about ? `${about} ` : ""}Edited against baseline, ${seeds.length ? `${seeds.length === 1 ? "seed" : "seeds"} ${asRanges(seeds, ", ")}: both sides saw the same random events` : "without chance"}.`;
  const wide = ownsKeys(make("div", { class: "sl-wide", tabindex: 0, role: "group", "aria-label": "Measures" }, make("table", {}, make("caption", {}, caption), make("thead", {}, head), body)));
  const list = assumed.length ? [make("h4", {}, "Assumed"), make("ul", { class: "sl-assumed" }, ...assumed.map((text) => make("li", {}, make("bdi", {}, text))))] : [];
  return [wide, ...list];
}

function cellsOf(row) {
  const verdict = verdictOf(row);
  const { baseline, edited, low, high } = row;
  const both = baseline !== null && edited !== null;
  const side = (value) => make("td", { class: "sl-number" }, value === null ? row.unknown || "-" : measured(value, row.unit));
  const change = both ? `${signed(edited - baseline, row.unit === "ms" ? "ms" : "")}${percent(baseline, edited)}` : baseline === edited ? "-" : baseline === null ? `${row.unknown || "not known"} before` : `${row.unknown || "not known"} any more`;
  const range = both && low !== null && high !== null ? [low, high].map((end) => signed(end, row.unit === "ms" ? "ms" : "")).join(" to ") : "-";
  return [
    make("th", { scope: "row" }, named(row.measure)), make("td", { class: "sl-pair", "aria-hidden": "true" }, both ? pairOf(baseline, edited) : ""),
    side(baseline), side(edited), make("td", { class: "sl-number" }, change), make("td", { class: "sl-number" }, range),
    make("td", { class: `sl-verdict sl-${verdict || "none"}` }, verdict ? make("span", { "aria-hidden": "true" }, `${GLYPHS[verdict]} `) : null, verdict),
  ];
}

// Baseline above, edited below.
function pairOf(baseline, edited) {
  const most = Math.max(Math.abs(baseline), Math.abs(edited)) || 1;
  const bar = (value, name) => make("span", { class: name, style: { width: `${(100 * Math.abs(value)) / most}%` } });
  return make("span", { class: "sl-bars" }, bar(baseline, "sl-before"), bar(edited, "sl-after"));
}

function measured(value, unit) {
  const rounded = Number(value.toPrecision(4));
  if (unit === "ms") return duration(rounded);
  return `${number(Math.abs(value) >= 1000 ? Math.round(value) : rounded)}${unit ? ` ${value === 1 ? unit.replace(/s$/, "") : unit}` : ""}`;
}

function signed(value, unit) {
  return value === 0 ? measured(0, unit) : `${value > 0 ? "+" : "-"}${measured(Math.abs(value), unit)}`;
}

function percent(baseline, edited) {
  if (!baseline || baseline === edited) return "";
  const share = (100 * (edited - baseline)) / Math.abs(baseline);
  return ` (${share > 0 ? "+" : "-"}${number(Number(Math.abs(share).toPrecision(2)))} %)`;
}

/** The same as text: the assignment, and its changes. */
export function assignmentTable(held, base, columns, labels) {
  const names = [...new Set([...held.keys(), ...base.keys()])];
  const alone = labels.map((_, row) => row).filter((row) => ![...held.values()].some((rows) => rows.has(row)));
  const lines = names.slice(0, MOST_ROWS).map((member) => {
    const [now, before] = [held.get(member), base.get(member)];
    const added = [...(now ?? [])].filter((row) => !before?.has(row));
    const taken = [...(before ?? [])].filter((row) => !now?.has(row));
    return make("tr", {}, make("td", {}, named(member)), make("td", { class: "sl-number" }, now ? number(now.size) : "removed"),
      topicsOf([...(now ?? [])], columns), topicsOf(added, columns), topicsOf(taken, columns));
  });
  if (alone.length) lines.unshift(make("tr", {}, make("td", {}, "Without a member"), make("td", { class: "sl-number" }, number(alone.length)), topicsOf(alone, columns), make("td", {}, "-"), make("td", {}, "-")));
  const head = make("tr", {}, ...["Member", "Count", "Partitions", "Added", "Removed"].map((text, n) => make("th", { scope: "col", class: n === 1 ? "sl-number" : "" }, text)));
  const cut = names.length > MOST_ROWS ? `The first ${number(MOST_ROWS)} of ${counted(names.length, "member")}` : counted(names.length, "member");
  return make("table", {}, make("caption", {}, cut), make("thead", {}, head), make("tbody", {}, ...lines));
}

// Partitions by topic as ranges.
function topicsOf(rows, columns) {
  const by = new Map();
  for (const row of [...rows].sort((a, b) => a - b)) {
    const code = columns._topic.values[row];
    if (!by.has(code)) by.set(code, []);
    by.get(code).push(columns._partition.values[row]);
  }
  const parts = [...by].map(([code, numbers], n) => make("span", {}, n ? "; " : "", named(columns._topic.texts[code]), `: ${asRanges(numbers, ", ")}`));
  return make("td", { class: "sl-many" }, ...(parts.length ? parts : ["-"]));
}
