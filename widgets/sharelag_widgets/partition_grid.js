// Share partitions as cells: one look for ten thousand, then filter, sort, brush.

import { isUnknown, textAt } from "./shared/columns.js";
import { button, make, named, ownsKeys, takesKeys } from "./shared/dom.js";
import { counted, formatOf, isolated, number, shown, words } from "./shared/format.js";
import { holding, pickedRows, sortedBy } from "./shared/rows.js";
import { view } from "./shared/view.js";
import { beside, bounds, cellAt, cellsIn, layout, placeOf, stepOf } from "./grid_math.js";
import { paintGrid, stepSwatch } from "./grid_picture.js";

const TALLEST = 520;
const TABLE_ROWS = 500;
const ORDERS = { name: "by name", most: "most first", least: "least first" };
const WATCHED = ["measure", "order", "least", "filter", "picked", "measures", "marked"];
const HELP = "Arrow keys: from cell to cell. Enter or space: pick it; with shift, add to what is picked. Ctrl+A: pick all that is shown. " +
  "Escape: pick nothing. Drag: pick a rectangle.";

function build({ model, root, link, say, later }) {
  let [columns, cells, made, active, brush, styled] = [null, [], null, -1, null, []];
  const picks = pickedRows(model, link);
  const get = (name) => model.get(name);

  const measure = ownsKeys(make("select", { onchange: () => link.tell({ measure: measure.value, least: null }) }));
  const order = ownsKeys(make("select", { onchange: () => link.tell({ order: order.value }) },
    ...Object.entries(ORDERS).map(([value, text]) => make("option", { value }, text))));
  const filter = ownsKeys(make("input", { type: "search", size: 14, oninput: () => link.tell({ filter: filter.value }) }));
  const least = ownsKeys(make("input", { type: "number", min: 0, style: { width: "7em" }, oninput: () => link.tell({ least: least.value === "" ? null : Number(least.value) }) }));
  const leastLabel = make("label", { class: "sl-filter" }, "At least", least);
  const asTable = button("Show as table", () => { table.hidden = !table.hidden; later(); }, { "aria-expanded": "false" });
  const canvas = ownsKeys(make("canvas", { tabindex: 0, role: "slider", "aria-label": "Share partitions" }));
  const ground = make("div", { class: "sl-ground" }, canvas);
  const scroll = make("div", { class: "sl-cells", onscroll: later }, ground);
  const spot = make("p", { class: "sl-spot" });
  const summary = make("p", { class: "sl-soft" });
  const legend = make("ul", { class: "sl-legend", "aria-label": "What the cells show" });
  const table = ownsKeys(make("div", { class: "sl-scroll", hidden: true, tabindex: 0, role: "region", "aria-label": "The cells as a table" }));
  const bar = make("div", { class: "sl-bar" }, make("label", {}, "Colour", measure), make("label", {}, "Order", order),
    make("label", { class: "sl-filter" }, "Filter", filter), leastLabel, make("span", { class: "sl-push" }), asTable);
  const help = make("details", { class: "sl-soft" }, make("summary", {}, "Keys"), make("p", {}, HELP));

  // ---- user input ----
  function go(cell) {
    active = Math.max(0, Math.min(cells.length - 1, cell));
    const [, top] = placeOf(made, active);
    if (top < scroll.scrollTop) scroll.scrollTop = top - 4;
    if (top + made.pitch > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + made.pitch - scroll.clientHeight + 4;
    later();
  }
  const pick = (chosen, add) => picks.pick(chosen.map((cell) => cells[cell]), columns, add);
  const keys = {
    ArrowLeft: () => go(active - 1),
    ArrowRight: () => go(active + 1),
    ArrowUp: () => go(beside(made, Math.max(0, active), -1)),
    ArrowDown: () => go(active < 0 ? 0 : beside(made, active, 1)),
    PageUp: () => go(beside(made, Math.max(0, active), -10)),
    PageDown: () => go(beside(made, Math.max(0, active), 10)),
    Home: () => go(0),
    End: () => go(cells.length - 1),
    Enter: ({ shiftKey }) => active >= 0 && pick([active], shiftKey),
    " ": ({ shiftKey }) => active >= 0 && pick([active], shiftKey),
    Escape: () => pick([], false),
  };
  takesKeys(canvas, ({ key, ctrlKey, metaKey }) => {
    if (cells.length === 0) return null;
    return key === "a" && (ctrlKey || metaKey) ? () => picks.pick(cells, columns) : keys[key];
  });
  const point = (event) => [event.offsetX, event.offsetY + scroll.scrollTop];
  canvas.addEventListener("pointerdown", (event) => {
    brush = [...point(event), ...point(event)];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = point(event);
    const cell = made ? cellAt(made, x, y) : -1;
    if (cell >= 0) active = cell;
    if (brush) brush = [brush[0], brush[1], x, y];
    if (cell >= 0 || brush) later();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!brush) return;
    const box = boxOf(brush);
    brush = null;
    pick(cellsIn(made, box), event.ctrlKey || event.shiftKey || event.metaKey);
    later();
  });
  canvas.addEventListener("pointercancel", () => (brush = null));

  // ---- content ----
  function load(loaded) {
    columns = loaded;
    picks.load(columns);
    measure.replaceChildren(...get("measures").map((name) => make("option", { value: name }, words(name))));
    filter.placeholder = columns._band.texts.some(Boolean) ? "group, topic" : "name";
    active = -1;
  }
  function arrange() {
    const column = columns[get("measure")];
    let rows = Uint32Array.from({ length: column.values.length }, (_, row) => row);
    rows = holding(columns, ["_label", "_band"], rows, get("filter"));
    if (get("least") !== null && !column.texts) rows = rows.filter((row) => column.values[row] >= get("least"));
    const byName = get("order") === "name";
    cells = byName ? sortedBy(columns._band, sortedBy(columns._label, rows, false), false) : sortedBy(column, rows, get("order") === "most");
    const banded = byName && columns._band.texts.some(Boolean);
    const bands = banded ? Int32Array.from(cells, (row) => columns._band.values[row]) : new Int32Array(cells.length).fill(-1);
    // Names of usual length stand in one line above their cells; one that is longer is pressed together there.
    const longest = Math.min(40, columns._band.texts.reduce((most, text) => Math.max(most, text.length), 0));
    made = layout(bands, scroll.clientWidth, TALLEST, { heading: banded ? longest * 7 + 50 : Infinity });
    active = Math.min(active, cells.length - 1);
  }
  let arranged = "";
  function paint() {
    const begun = performance.now();
    const mark = JSON.stringify([root.dataset.loaded, scroll.clientWidth, ...["measure", "order", "least", "filter"].map(get)]);
    if (mark !== arranged) arrange();
    const column = columns[get("measure")];
    const steps = column.texts ? [] : bounds(column.values);
    const stepAt = (row) => (column.texts ? column.values[row] : stepOf(column.values[row], steps));
    ground.style.height = `${made.height}px`;
    scroll.style.height = `${Math.min(made.height + 2, TALLEST)}px`;
    const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
    styled = paintGrid(canvas, {
      made, cells, stepAt, top: scroll.scrollTop, height: Math.min(made.height, TALLEST), active, brush: brush && boxOf(brush), texts: Boolean(column.texts),
      picked: new Set(picks.rows()), theme: root.dataset.theme, ink: colour("--sl-ink"), soft: colour("--sl-soft"), paper: colour("--sl-paper"),
      focus: colour("--sl-focus"), bandName: (band) => columns._band.texts[band], marked: get("marked"),
    });
    const spent = performance.now() - begun;
    if (mark !== arranged || legend.dataset.look !== root.dataset.look) writeLegend(column, steps, stepAt);
    arranged = mark;
    write(column);
    Object.assign(root.dataset, { cells: cells.length, rows: column.values.length, pitch: made.pitch, paintMs: spent.toFixed(2) });
    Object.assign(root.dataset, { picked: JSON.stringify(Array.from(picks.rows())), active: active < 0 ? "" : cells[active] });
    performance.measure("sharelag-grid", { start: begun, end: performance.now() });
  }
  function writeLegend(column, steps, stepAt) {
    const counts = new Map();
    for (const row of cells) counts.set(stepAt(row), (counts.get(stepAt(row)) ?? 0) + 1);
    const format = formatOf(get("measure"));
    // Without negative numbers, nothing but zero lies below the first bound.
    const lowest = column.texts ? 0 : column.values.reduce((low, value) => (value < low ? value : low), 0);
    const range = (step) => (step === 0 ? (lowest < 0 ? `below ${format(steps[0])}` : format(0)) : step < steps.length ? `${format(steps[step - 1])} to ${format(steps[step])}` : `${format(steps[step - 1])} and more`);
    const all = column.texts ? column.texts.map((_, code) => code) : [0, ...steps.map((_, n) => n + 1)];
    const items = all.map((step) => [step, column.texts ? named(column.texts[step]) : range(step)]);
    if (counts.has(-1)) items.push([-1, "not known"]);
    legend.classList.toggle("sl-steps", !column.texts);
    legend.replaceChildren(...items.map(([step, text]) => make("li", { data: { step }, title: column.texts ? null : `${text}: ${number(counts.get(step) ?? 0)}` }, stepSwatch(step, column.texts, root.dataset.theme), make("span", {}, text), make("strong", {}, number(counts.get(step) ?? 0)))));
    legend.dataset.look = root.dataset.look;
    root.dataset.steps = JSON.stringify(Object.fromEntries(counts));
  }
  function write(column) {
    for (const [element, name] of [[measure, "measure"], [order, "order"]]) element.value = get(name);
    if (document.activeElement !== filter) filter.value = get("filter");
    if (document.activeElement !== least) least.value = get("least") ?? "";
    leastLabel.hidden = Boolean(column.texts);
    asTable.setAttribute("aria-expanded", String(!table.hidden));
    const chosen = picks.rows().length;
    const count = cells.length === column.values.length ? counted(cells.length, get("noun")) : `${number(cells.length)} of ${counted(column.values.length, get("noun"))}`;
    summary.textContent = `${count}${chosen ? `, ${number(chosen)} picked` : ""}.${cells.length ? "" : " The filter leaves none: shorten it."}`;
    const text = active < 0 ? "No cell chosen: use the arrow keys, or point at one." : describe(cells[active], column);
    spot.replaceChildren(make("bdi", {}, text));
    for (const [name, value] of [["aria-valuemin", 0], ["aria-valuemax", Math.max(0, cells.length - 1)], ["aria-valuenow", Math.max(0, active)], ["aria-valuetext", text]]) canvas.setAttribute(name, value);
    say(summary.textContent);
    if (!table.hidden) table.replaceChildren(cellTable(column));
  }
  function describe(row, column) {
    const band = textAt(columns._band, row);
    const value = isUnknown(column, row) ? "not known" : shown(column, row, get("measure"));
    return `${isolated(textAt(columns._label, row))}${band ? ` in ${isolated(band)}` : ""}: ${words(get("measure"))} ${value}`;
  }
  function cellTable(column) {
    const body = make("tbody", {}, ...Array.from(cells.slice(0, TABLE_ROWS), (row) =>
      make("tr", {}, make("td", {}, named(textAt(columns._band, row) ?? "")), make("td", {}, named(textAt(columns._label, row))), make("td", { class: "sl-number" }, shown(column, row, get("measure"))))));
    const cut = cells.length > TABLE_ROWS ? `The first ${TABLE_ROWS} of ${number(cells.length)}, ${ORDERS[get("order")]}` : `All ${number(cells.length)}, ${ORDERS[get("order")]}`;
    const head = make("tr", {}, ...["Group", words(get("noun")), words(get("measure"))].map((text, n) => make("th", { scope: "col", class: n === 2 ? "sl-number" : "" }, text)));
    return make("table", {}, make("caption", {}, cut), make("thead", {}, head), body);
  }
  return { elements: [bar, scroll, spot, make("div", { class: "sl-bar" }, summary, legend, help), table], load, paint, hear: picks.hear };
}

function boxOf([x0, y0, x1, y1]) {
  return [Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)];
}

export default { render: (context) => view(context, "grid", build, WATCHED) };
