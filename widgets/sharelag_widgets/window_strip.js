// One share partition's window over time: a picture that the keyboard and a screen reader can read too.

import { textAt } from "./shared/columns.js";
import { button, make, ownsKeys, takesKeys } from "./shared/dom.js";
import { isolated, local, number, place, utc } from "./shared/format.js";
import { lastSwatch, swatch } from "./shared/paint.js";
import { KINDS, LAST } from "./shared/palette.js";
import { view } from "./shared/view.js";
import { offsetField, timeBar } from "./strip_controls.js";
import { countsOf, extent, lastBefore, lastCount, panned, pieceAt, piecesOf, zoomed } from "./strip_math.js";
import { watchMouse } from "./strip_mouse.js";
import { HEIGHT, paintStrip } from "./strip_picture.js";
import { HELP, cursorWords, offsetIn, pieceTable, spotWords } from "./strip_words.js";

const FITS = { window: "Window", moments: "All moments", log: "Whole log" };
const WATCHED = ["shown", "moment", "cursor", "offsets", "fit", "span", "speed", "limit"];

function build({ model, root, link, say, later }) {
  let [columns, data, row, rows, pieces, spoken, unpicked] = [null, null, 0, [], null, "", null];
  let seen = {}; // of the last paint: share partition, cursor, and the existing offsets
  const get = (name) => model.get(name);
  const value = (name) => columns[name].values[row];

  // ---- the elements ----
  const which = ownsKeys(make("select", { "aria-label": "Share partition", onchange: () => show(which.selectedIndex) }));
  const fits = Object.entries(FITS).map(([fit, words]) => button(words, () => link.tell({ fit, span: [] }), { data: { fit } }));
  const inward = button("+", () => zoom(0.5), { "aria-label": "Zoom in" });
  const outward = button("\u2212", () => zoom(2), { "aria-label": "Zoom out" });
  const asTable = button("Show as table", () => { table.hidden = !table.hidden; later(); }, { "aria-expanded": "false" });
  const canvas = ownsKeys(make("canvas", { tabindex: 0, role: "slider", "aria-label": "Offsets", style: { height: `${HEIGHT}px`, touchAction: "pan-y" } }));
  const spot = make("p", { class: "sl-spot" });
  const summary = make("p", { class: "sl-told" });
  const time = timeBar({ get, last: () => rows.length - 1, go, tell: link.tell, say });
  const goField = offsetField(goTo);
  const legend = make("ul", { class: "sl-legend", "aria-label": "Offsets by state" });
  const table = make("div", { class: "sl-scroll", hidden: true, tabindex: 0, role: "region", "aria-label": "The window as a table" });
  ownsKeys(table);
  const help = make("details", { class: "sl-soft" }, make("summary", {}, "Keys and mouse"), ...HELP.map((text) => make("p", {}, text)));
  const bar = make("div", { class: "sl-bar" }, which, make("span", { class: "sl-fits" }, ...fits), make("span", { class: "sl-zoom" }, outward, inward), goField.element, make("span", { class: "sl-push" }), asTable);

  // ---- user input ----
  const picked = () => [textAt(columns.key, get("shown"))];
  function show(shown) {
    const moment = columns.at.values[shown + 1] - columns.at.values[shown] - 1;
    link.tell({ shown, moment, cursor: null, offsets: [], fit: "window", span: [] }, { keys: [textAt(columns.key, shown)], offsets: null });
  }
  function go(moment) {
    const last = rows.length - 1;
    const to = Math.max(0, Math.min(last, moment));
    link.tell({ moment: to }, { moment: columns.time.values[columns.at.values[get("shown")] + to] });
  }
  function momentAt(time) {
    const shown = get("shown");
    return lastBefore(columns.time.values, columns.at.values[shown], columns.at.values[shown + 1], time);
  }
  // The range of the cursor: the offsets of this moment; and the range of the picture: those of all moments.
  const reach = () => extent(columns, "log", row, [row]);
  const limits = () => extent(columns, "log", row, rows);
  const span = () => (get("fit") === "fixed" && get("span").length === 2 ? get("span") : extent(columns, get("fit"), row, rows));
  function zoom(factor, at = get("cursor") ?? (span()[0] + span()[1]) / 2) {
    link.tell({ fit: "fixed", span: zoomed(span(), factor, at, limits()) });
  }
  function look(offset, more = {}, others = null) {
    const [low, high] = reach();
    const to = Math.max(low, Math.min(high - 1, offset));
    const [from, until] = span();
    const moved = to < from || to >= until ? { fit: "fixed", span: panned([from, until], (to - (from + until) / 2) / (until - from), limits()) } : {};
    link.tell({ cursor: to, ...moved, ...more }, others);
  }
  function goTo(text) {
    if (Number.isNaN(value("start"))) return "The start offset is not known yet, so there is no offset to go to.";
    const found = offsetIn(text, reach());
    if (found.why) return found.why;
    look(found.offset);
    say(cursorWords(pieces, found.offset, get("limit")));
    return "";
  }
  function pick(first, last) {
    const offsets = [Math.min(first, last), Math.max(first, last)];
    link.tell({ offsets }, { keys: picked(), offsets });
  }
  const run_ = (offset) => {
    const n = pieceAt(pieces, offset);
    return n < 0 ? null : [pieces.first[n], pieces.end[n] - 1];
  };
  const here = () => get("cursor") ?? Math.ceil(span()[0]);
  function step(by, { shiftKey, ctrlKey, metaKey }) {
    if (get("cursor") === null) return look(here());
    const at = here();
    const of = run_(at);
    const to = (ctrlKey || metaKey) && of ? (by > 0 ? of[1] + 1 : of[0] - 1) : at + by;
    look(to);
    if (!shiftKey) return undefined;
    const [first, last] = get("offsets").length ? get("offsets") : [at, at];
    return pick(first === at ? last : first, here());
  }
  const keys = {
    ArrowLeft: (event) => step(-1, event),
    ArrowRight: (event) => step(1, event),
    PageUp: () => look(here() - Math.max(1, Math.round((span()[1] - span()[0]) / 10))),
    PageDown: () => look(here() + Math.max(1, Math.round((span()[1] - span()[0]) / 10))),
    Home: () => look(reach()[0]),
    End: () => look(reach()[1] - 1),
    "[": () => go(get("moment") - 1),
    "]": () => go(get("moment") + 1),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    0: () => link.tell({ fit: "window", span: [] }),
    Enter: () => run_(here()) && pick(...run_(here())),
    Escape: () => link.tell({ offsets: [], cursor: null }, { keys: picked(), offsets: null }),
    g: goField.focus,
    p: time.toggle,
    "<": () => time.shift(-1),
    ">": () => time.shift(1),
  };
  // With Ctrl they belong to the browser, except for runs.
  takesKeys(canvas, ({ key, ctrlKey, metaKey }) => ((ctrlKey || metaKey) && !key.startsWith("Arrow") ? null : keys[key]));
  // Steps in between need not reach the kernel.
  const quietly = (traits) => Object.entries(traits).forEach(([name, to]) => model.set(name, to));
  watchMouse(canvas, {
    span, limits, zoom, tail: () => tail(),
    point: (at) => quietly({ cursor: at }),
    brush(first, last, done) {
      unpicked ??= get("offsets");
      if (!done) return quietly({ offsets: [Math.min(first, last), Math.max(first, last)] });
      unpicked = null;
      quietly({ cursor: last });
      return pick(first, last);
    },
    unbrush() {
      if (unpicked) quietly({ offsets: unpicked });
      unpicked = null;
    },
    move: (to, done) => (done ? link.tell : quietly)({ fit: "fixed", span: to }),
  });

  // ---- content ----
  const tail = () => {
    const beyond = value("end") - Math.max(value("window_end"), value("start"), span()[1]);
    return get("fit") === "window" && beyond > 0 ? beyond : 0;
  };
  function load(loaded) {
    [columns, data] = [loaded, get("data")];
    which.replaceChildren(...columns.label.texts.map((text) => make("option", {}, text)));
    which.hidden = columns.label.texts.length < 2;
  }
  function paint() {
    const begun = performance.now();
    const shown = Math.min(get("shown"), columns.at.values.length - 2);
    const [first, end] = [columns.at.values[shown], columns.at.values[shown + 1]];
    rows = Array.from({ length: end - first }, (_, n) => first + n);
    row = first + Math.max(0, Math.min(rows.length - 1, get("moment")));
    pieces = piecesOf(columns, row);
    part(textAt(columns.key, shown));
    const counts = countsOf(pieces);
    const css = getComputedStyle(root);
    const colour = (name) => css.getPropertyValue(name).trim();
    const [start, windowEnd, logEnd] = ["start", "window_end", "end"].map(value);
    const marks = [
      { offset: start, words: `SPSO ${place(start)}` },
      { offset: Math.max(windowEnd, start), words: `SPEO ${place(Math.max(windowEnd, start))}` },
      { offset: logEnd, words: `log end ${place(logEnd)}` },
    ].filter(({ offset }) => !Number.isNaN(offset));
    paintStrip(canvas, {
      pieces, marks, span: span(), tail: tail(), cursor: get("cursor"), picked: get("offsets"), limit: get("limit"), theme: root.dataset.theme,
      ink: colour("--sl-ink"), soft: colour("--sl-soft"), paper: colour("--sl-paper"), focus: colour("--sl-focus"),
    });
    const spent = performance.now() - begun;
    write(shown, counts, start, windowEnd, logEnd);
    Object.assign(root.dataset, { moment: get("moment"), counts: JSON.stringify(counts), paintMs: spent.toFixed(2) });
    Object.assign(root.dataset, { span: JSON.stringify(span()), pieces: pieces.size, tail: tail() });
    performance.measure("sharelag-strip", { start: begun, end: performance.now() });
  }
  // What was said and looked at in one share partition means nothing in another one, whoever changed it; nor does what
  // is out of range at one moment at another one.
  function part(key) {
    if (data !== get("data")) return; // the data that `shown` counts has not arrived yet
    const there = `${get("moment")}: ${reach()}`;
    const isOther = seen.key !== undefined && seen.key !== key;
    if (isOther) goField.clear();
    else if (seen.there !== there) goField.hush();
    if (isOther && seen.cursor === get("cursor")) model.set("cursor", null);
    seen = { key, there, cursor: get("cursor") };
  }
  function write(shown, counts, start, windowEnd, logEnd) {
    which.selectedIndex = shown;
    for (const made of fits) made.setAttribute("aria-pressed", String(made.dataset.fit === get("fit")));
    asTable.setAttribute("aria-expanded", String(!table.hidden));
    const at = utc(value("time"));
    time.show(at, local(value("time")));
    const known = Number.isNaN(start) ? "The start offset is not known yet: the group has not fetched from this partition."
      : `SPSO ${place(start)}, SPEO ${place(Math.max(windowEnd, start))}, log end ${Number.isNaN(logEnd) ? "not known" : place(logEnd)}`;
    summary.textContent = `${at}: ${known}. ${numbersOf()}`;
    const there = counts.map((count, kind) => (count ? `${KINDS[kind].words} ${number(count)}` : "")).filter(Boolean);
    const spoke = `${isolated(textAt(columns.label, shown))}, ${at}: ${there.join(", ") || known}`;
    if (spoke !== spoken) say((spoken = spoke));
    writeLegend(counts);
    writeSpot();
    if (!table.hidden) table.replaceChildren(pieceTable(pieces, at, get("limit")));
  }
  // A history has counts of a window, but not their positions.
  function numbersOf() {
    if (columns.itemised.values[0]) return "";
    return `In the window: available ${number(value("available"))}, complete ${number(value("complete"))}; give windows with runs to see where.`;
  }
  const entry = ({ name, words, means }, picture) =>
    make("li", { title: means, data: { kind: name } }, picture, make("span", {}, words), make("strong", {}));
  function writeLegend(counts) {
    const shownKinds = KINDS.map((_, kind) => kind).filter((kind) => counts[kind] || kind === 0 || kind === 2 || kind === 4);
    const last = lastCount(pieces, get("limit"));
    const mark = `${root.dataset.look} ${shownKinds} ${last > 0}`;
    if (legend.dataset.mark !== mark) {
      legend.dataset.mark = mark;
      legend.replaceChildren(...shownKinds.map((kind) =>
        entry(KINDS[kind], swatch(kind, root.dataset.theme))));
      const paper = getComputedStyle(root).getPropertyValue("--sl-paper").trim();
      if (last) legend.append(entry(LAST, lastSwatch(root.dataset.theme, paper)));
    }
    if (last) legend.lastChild.lastChild.textContent = number(last);
    shownKinds.forEach((kind, n) => (legend.children[n].lastChild.textContent = number(counts[kind])));
  }
  function writeSpot() {
    const [cursor, picked_] = [get("cursor"), get("offsets")];
    const [from, to] = reach();
    canvas.setAttribute("aria-valuemin", from);
    canvas.setAttribute("aria-valuemax", to - 1);
    canvas.setAttribute("aria-valuenow", Math.max(from, Math.min(to - 1, cursor ?? from)));
    spot.textContent = spotWords(pieces, cursor, picked_, get("limit"));
    canvas.setAttribute("aria-valuetext", cursor === null ? spot.textContent : cursorWords(pieces, cursor, get("limit")));
  }
  function hear({ keys: names, moment, offsets }) {
    const before = get("shown");
    const shown = names ? names.map((name) => columns.key.texts.indexOf(name)).find((n) => n >= 0) : undefined;
    if (shown !== undefined && shown !== before) {
      model.set("shown", shown);
      model.set("moment", columns.at.values[shown + 1] - columns.at.values[shown] - 1);
      if (get("fit") === "fixed") model.set("fit", "window");
    }
    if (moment !== undefined && moment !== null) model.set("moment", momentAt(moment));
    if (offsets !== undefined) model.set("offsets", offsets ?? []);
  }
  return { elements: [bar, canvas, spot, time.element, summary, legend, table, help], load, paint, hear, stop: time.stop };
}

export default { render: (context) => view(context, "strip", build, WATCHED) };
