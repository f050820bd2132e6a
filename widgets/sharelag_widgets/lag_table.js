// A table of any length: only the rows in sight are in the page.

import { copied } from "./shared/copied.js";
import { isUnknown } from "./shared/columns.js";
import { button, make, named, ownsKeys, takesKeys } from "./shared/dom.js";
import { counted, number, shown, words } from "./shared/format.js";
import { MARKS } from "./shared/levels.js";
import { holding, pickedRows, sortedBy } from "./shared/rows.js";
import { inSight } from "./shared/sight.js";
import { view } from "./shared/view.js";
import { csv, longestTexts, longestWord, points, seriesWords, spared, widths } from "./table_math.js";

const ROW = 27;
const TALLEST = 400;
/** Rows on paper, which cannot be scrolled. */
const PRINTED = 500;
const paper = matchMedia("print");
/** In pixels: the longest text, a level's sign, a small line, and both sides of a cell, of a dense table and of a tight one; the arrow of what is sorted. */
const DENSE = { widest: 190, mark: 26, spark: 44, sides: 9 }; // a mark's heading is a button: 24 or more
const NARROWEST = 90;
const [TIGHT, ARROW] = [{ widest: 265, spark: 84, sides: 14 }, 14];
const WATCHED = ["names", "sort", "descending", "filter", "picked", "hints", "narrows", "folded", "dense", "headings", "optional"];
const HELP = "Up and down: from row to row. Enter or space: pick; with shift, add to what is picked. Ctrl+A: pick all that is shown. Escape: pick nothing. /: to the filter, and Enter back from it. Ctrl+C: copy as CSV.";
let tables = 0;

function build({ model, root, link, say, later }) {
  const id = `sl-table-${++tables}`;
  let [columns, rows, names, left, active, arranged, roomy] = [null, [], [], [], -1, "", 0];
  const pen = document.createElement("canvas").getContext("2d");
  const picks = pickedRows(model, link);
  const get = (name) => model.get(name);

  const filter = ownsKeys(make("input", { type: "search", size: 18, placeholder: "words in any column", oninput: () => link.tell({ filter: filter.value }) }));
  const only = ownsKeys(make("input", { type: "checkbox", checked: true, onchange: later }));
  only.checked = true;
  const onlyLabel = make("label", {}, only, "Only what is picked elsewhere");
  const unfold = ownsKeys(make("input", { type: "checkbox", class: "sl-unfold", onchange: later }));
  const unfoldWords = make("span");
  const unfoldLabel = make("label", {}, unfold, unfoldWords);
  const copy = button("Copy as CSV", () => copyRows());
  const bar = make("div", { class: "sl-bar" }, make("label", { class: "sl-filter" }, "Filter", filter), onlyLabel, unfoldLabel, make("span", { class: "sl-push" }), copy);
  const cols = make("colgroup");
  const head = make("tr");
  const body = make("tbody");
  const grid = ownsKeys(make("table", { role: "grid", tabindex: 0, "aria-multiselectable": "true" }, cols, make("thead", {}, head), body));
  const scroll = make("div", { class: "sl-scroll", onscroll: later, style: { maxHeight: `${TALLEST}px` } }, grid);
  const summary = make("p", { class: "sl-soft" });
  const cut = make("span", { class: "sl-soft" });
  const help = make("details", { class: "sl-soft" }, make("summary", {}, "Keys"), make("p", {}, HELP));

  // ---- user input ----
  function sortBy(name) {
    link.tell({ sort: name, descending: get("sort") === name ? !get("descending") : !columns[name].texts });
  }
  function go(place) {
    active = Math.max(0, Math.min(rows.length - 1, place));
    const top = active * ROW;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    const room = scroll.clientHeight - head.offsetHeight;
    if (top + ROW > scroll.scrollTop + room) scroll.scrollTop = top + ROW - room;
    later();
  }
  async function copyRows() {
    const chosen = picks.rows();
    const wanted = new Set(chosen);
    const among = wanted.size && !picks.elsewhere ? Array.from(rows).filter((row) => wanted.has(row)) : rows;
    const text = csv(columns, get("names"), among);
    if (!(await copied(root, text, "The rows as CSV", summary))) return;
    say(`${counted(among.length, "row")} copied`);
    summary.textContent = `${counted(among.length, "row")} copied.`;
  }
  const page = () => Math.max(1, Math.floor(scroll.clientHeight / ROW) - 2);
  const keys = {
    ArrowUp: () => go(active - 1),
    ArrowDown: () => go(active + 1),
    PageUp: () => go(active - page()),
    PageDown: () => go(active + page()),
    Home: () => go(0),
    End: () => go(rows.length - 1),
    Enter: ({ shiftKey }) => active >= 0 && picks.pick([rows[active]], columns, shiftKey),
    " ": ({ shiftKey }) => active >= 0 && picks.pick([rows[active]], columns, shiftKey),
    Escape: () => picks.pick([], columns),
    "/": () => (filter.checkVisibility() ? filter : root.closest(".sharelag-dashboard").querySelector(".sl-finder input")).focus(),
  };
  filter.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    arrange(); // the latest input may not be painted yet
    grid.focus();
    if (rows.length) go(0);
  });
  const commands = { a: () => picks.pick(rows, columns), c: copyRows };
  takesKeys(grid, ({ target, key, ctrlKey, metaKey }) => {
    if (target !== grid) return null; // a button in the head
    return (ctrlKey || metaKey ? commands : keys)[key];
  });
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-place]");
    if (!row || String(getSelection())) return; // a text may be selected
    active = Number(row.dataset.place);
    picks.pick([rows[active]], columns, event.shiftKey || event.ctrlKey || event.metaKey);
  });

  // ---- content ----
  function load(loaded) {
    columns = loaded;
    picks.load(columns);
    active = -1;
    arranged = "";
  }
  const isTight = () => scroll.clientWidth > 0 && scroll.clientWidth < roomy;
  const isAmount = (name) => (columns[name].texts ? get("amounts").includes(name) : columns[name].kind !== "time");
  const isMark = (name) => get("dense") && name === "level"; // a sign, with its word as a tooltip
  // In pixels: columns of a fixed table accept no calc(). The minimum fits the current content and the longest word of a heading.
  function widthsOf(titles, fewest = false) {
    if (!get("dense") && !fewest) return widths(columns, names, titles, get("sparks")).map((characters) => Math.round(characters * 7.8) + 20);
    const { widest, mark, spark, sides } = get("dense") ? DENSE : TIGHT;
    const { fontFamily } = getComputedStyle(grid);
    // All digits are as wide as a 0.
    const taken = (text, weight) => ((pen.font = `${weight} 12px ${fontFamily}`), pen.measureText(text.replace(/\d/g, "0")).width);
    return names.map((name, n) => {
      if (isMark(name)) return mark;
      const head = taken(fewest ? longestWord(titles[n]) : titles[n], 600) + (get("sort") === name ? ARROW : 0);
      const most = get("sparks").includes(name) ? spark : Math.max(...longestTexts(columns[name], name).map((text) => taken(text, 400)), 0);
      // On a narrow page long names do not push the numbers out of sight; a number is never cut.
      const room = isAmount(name) ? Infinity : Math.min(widest, Math.max(NARROWEST, scroll.clientWidth * 0.25));
      return Math.ceil(Math.max(head, Math.min(most, room))) + sides;
    });
  }
  // Rows that match a filter or are picked are shown, folded or not.
  function unfolded(among) {
    const { column, value, words: kind } = get("folded");
    const texts = columns[column]?.texts;
    const code = texts ? texts.indexOf(value) : -1;
    const hidden = code < 0 ? 0 : among.reduce((count, row) => count + (columns[column].values[row] === code), 0);
    unfoldLabel.hidden = hidden === 0 || hidden === among.length;
    unfoldWords.textContent = `Also ${number(hidden)} ${kind}`;
    if (unfoldLabel.hidden || unfold.checked || get("filter")) return among;
    const kept = new Set(picks.rows());
    return among.filter((row) => columns[column].values[row] !== code || kept.has(row));
  }
  function arrange() {
    names = get("names");
    rows = Uint32Array.from({ length: columns._key.values.length }, (_, row) => row);
    const chosen = picks.rows();
    if (get("narrows") && only.checked && picks.elsewhere && chosen.length) rows = chosen;
    rows = unfolded(rows);
    rows = holding(columns, names, rows, get("filter"));
    if (columns[get("sort")]) rows = sortedBy(columns[get("sort")], rows, get("descending"));
    root.classList.toggle("sl-dense", Boolean(get("dense")));
    root.classList.toggle("sl-short", columns._key.values.length * ROW < TALLEST - ROW); // all rows are in sight
    const titleOf = (name) => get("headings")?.[name] ?? words(name);
    let needed = widthsOf(names.map(titleOf));
    roomy = get("dense") ? 0 : needed.reduce((sum, width) => sum + width, 0);
    // Wrap headings before any column is hidden.
    if (isTight()) needed = widthsOf(names.map(titleOf), true);
    root.classList.toggle("sl-tight", isTight());
    left = spared(names, needed, scroll.clientWidth, get("optional"));
    const wide = needed.filter((_, n) => !left.includes(names[n]));
    names = names.filter((name) => !left.includes(name));
    const titles = names.map(titleOf);
    left = left.map(titleOf);
    cols.replaceChildren(...wide.map((width) => make("col", { style: { width: `${width}px` } })));
    grid.style.width = `${wide.reduce((sum, width) => sum + width, 0)}px`;
    head.replaceChildren(...names.map((name, n) => {
      const sorted = get("sort") === name ? (get("descending") ? "descending" : "ascending") : "none";
      const arrow = { descending: " \u25be", ascending: " \u25b4", none: "" }[sorted];
      return make("th", { scope: "col", role: "columnheader", "aria-sort": sorted, class: isAmount(name) ? "sl-number" : "" },
        button(isMark(name) ? make("span", { class: "sl-unseen" }, titles[n]) : titles[n] + arrow, () => sortBy(name), { class: "sl-sort", tabindex: 0, title: get("hints")[name] ?? name, data: { name } }));
    }));
    grid.setAttribute("aria-rowcount", rows.length + 1);
    active = Math.min(active, rows.length - 1);
  }
  function paint() {
    const begun = performance.now();
    const mark = JSON.stringify([root.dataset.loaded, (get("optional").length || get("dense") || isTight()) && scroll.clientWidth, ...["names", "sort", "descending", "filter", "hints", "narrows", "folded", "dense", "headings", "optional"].map(get), only.checked, unfold.checked, get("folded").column && Array.from(picks.rows()), picks.elsewhere && Array.from(picks.rows())]);
    if (mark !== arranged) {
      const focused = root.contains(document.activeElement) && document.activeElement.dataset.name;
      arrange();
      arranged = mark;
      if (focused) [...head.querySelectorAll("button")].find((made) => made.dataset.name === focused)?.focus();
    }
    const { first, end } = paper.matches ? { first: 0, end: Math.min(rows.length, PRINTED) } : inSight(scroll.scrollTop, scroll.clientHeight || TALLEST, ROW, rows.length);
    const chosen = new Set(picks.rows());
    const made = Array.from(rows.subarray ? rows.subarray(first, end) : rows.slice(first, end), (row, n) => rowOf(row, first + n, chosen.has(row)));
    body.replaceChildren(...spacer(first), ...made, ...spacer(paper.matches ? 0 : rows.length - end));
    grid.setAttribute("aria-label", model.get("title") || "Rows");
    if (active >= first && active < end) grid.setAttribute("aria-activedescendant", `${id}-${active}`);
    else grid.removeAttribute("aria-activedescendant");
    onlyLabel.hidden = !picks.elsewhere || !get("narrows");
    if (document.activeElement !== filter) filter.value = get("filter");
    const all = columns._key.values.length;
    const count = rows.length === all ? counted(all, "row") : `${number(rows.length)} of ${counted(all, "row")}`;
    const narrow = left.length ? ` No room for ${left.join(", ")}.` : "";
    const hint = rows.length === 0 ? " The filter leaves none: shorten it." : picks.missing ? " What is picked elsewhere is not among these rows." : "";
    const printed = paper.matches && end < rows.length ? `Printed: the first ${number(end)}.` : "";
    const text = `${count}${chosen.size ? `, ${number(chosen.size)} picked` : ""}.${hint}${narrow}`;
    cut.textContent = printed;
    if (root.dataset.told !== text) {
      root.dataset.told = summary.textContent = text;
      say(text);
    }
    Object.assign(root.dataset, { rows: rows.length, made: made.length, active: active < 0 ? "" : active, paintMs: (performance.now() - begun).toFixed(2) });
    performance.measure("sharelag-table", { start: begun, end: performance.now() });
  }
  function rowOf(row, place, isPicked) {
    const cells = names.map((name) => {
      const column = columns[name];
      const text = shown(column, row, name);
      const unknown = isUnknown(column, row);
      if (!unknown && get("sparks").includes(name)) return make("td", { role: "gridcell", class: "sl-spark" }, spark(JSON.parse(text)));
      if (isMark(name)) return make("td", { role: "gridcell", class: "sl-mark", title: text, data: { level: text } }, MARKS[text] ?? "", make("span", { class: "sl-unseen" }, text));
      const inside = unknown ? [make("span", { "aria-hidden": "true" }, "-"), make("span", { class: "sl-unseen" }, "not known")] : [column.texts ? named(text) : text];
      return make("td", { role: "gridcell", class: isAmount(name) ? "sl-number" : "" }, ...inside);
    });
    return make("tr", {
      role: "row", id: `${id}-${place}`, "aria-rowindex": place + 2, "aria-selected": String(isPicked), data: { place, row }, class: place === active ? "sl-active" : "",
    }, ...cells);
  }
  function spark(values) {
    const [width, height] = [(get("dense") ? DENSE : TIGHT).spark, 18];
    const [lines, words] = [points(values, width, height), seriesWords(values)];
    // Parsed as HTML, which sets the namespace of SVG; numbers and words are inserted afterwards.
    const svg = document.createRange().createContextualFragment(`<svg><title></title>${"<polyline/>".repeat(lines.length)}</svg>`).firstChild;
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words })) svg.setAttribute(name, value);
    svg.firstChild.textContent = words;
    [...svg.querySelectorAll("polyline")].forEach((line, n) => line.setAttribute("points", lines[n]));
    return svg;
  }
  // A row that stands for those above or below.
  function spacer(count) {
    return count > 0 ? [make("tr", { "aria-hidden": "true", class: "sl-spacer" }, make("td", { colspan: names.length, style: { height: `${count * ROW}px` } }))] : [];
  }
  // Printing has no next frame.
  const print = () => columns && paint();
  paper.addEventListener("change", print);
  return { elements: [bar, scroll, make("div", { class: "sl-bar" }, summary, cut, help)], load, paint, hear: picks.hear, stop: () => paper.removeEventListener("change", print) };
}

export default { render: (context) => view(context, "table", build, WATCHED) };
