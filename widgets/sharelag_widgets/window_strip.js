// One share partition's window over time: a picture that the keyboard and a screen reader can read too.

import { textAt } from "./shared/columns.js";
import { button, make, ownsKeys } from "./shared/dom.js";
import { isolated, local, number, utc } from "./shared/format.js";
import { swatch } from "./shared/paint.js";
import { FINISHED, KINDS, UNREAD, WINDOW } from "./shared/palette.js";
import { view } from "./shared/view.js";
import { countsOf, extent, lastBefore, panned, pieceAt, piecesOf, zoomed } from "./strip_math.js";
import { HEIGHT, STUB, paintStrip } from "./strip_picture.js";
import { pieceTable } from "./strip_table.js";

const FITS = { window: "Window", moments: "All moments", log: "Whole log" };
const WATCHED = ["shown", "moment", "cursor", "offsets", "fit", "span"];
const HELP = "Left and right: offset. Shift with them: pick a range. Ctrl with them: next run. Page up and down: move on. " +
  "[ and ]: moment before and after. Plus and minus: zoom. 0: fit. Enter: pick the run. Escape: pick nothing. P: play.";

function build({ model, root, link, say, later }) {
  let [columns, row, rows, pieces, playing, drag] = [null, 0, [], null, 0, null];
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
  const told = make("p", { class: "sl-told" });
  const play = button("\u25b6", () => run(!playing), { "aria-label": "Play", class: "sl-play" });
  const slider = ownsKeys(make("input", { type: "range", min: 0, step: 1, "aria-label": "Moment", oninput: () => go(Number(slider.value)) }));
  const when = make("output", { class: "sl-when" });
  const time = make("div", { class: "sl-bar sl-time" }, play, slider, when);
  const legend = make("ul", { class: "sl-legend", "aria-label": "Offsets by state" });
  const table = make("div", { class: "sl-scroll", hidden: true, tabindex: 0, role: "region", "aria-label": "The window as a table" });
  ownsKeys(table);
  const help = make("details", { class: "sl-soft" }, make("summary", {}, "Keys"), make("p", {}, HELP));
  const bar = make("div", { class: "sl-bar" }, which, make("span", { class: "sl-push" }), ...fits, outward, inward, asTable);

  // ---- what people do ----
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
  function run(on) {
    clearInterval(playing);
    playing = on ? setInterval(() => (get("moment") < rows.length - 1 ? go(get("moment") + 1) : run(false)), 120) : 0;
    if (on && get("moment") >= rows.length - 1) go(0);
    play.textContent = playing ? "\u23f8" : "\u25b6";
    play.setAttribute("aria-label", playing ? "Pause" : "Play");
  }
  // How far the cursor goes: what there is at this moment; and how far the picture goes: at any of them.
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
    p: () => run(!playing),
  };
  canvas.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act(event);
  });
  const offsetOf = (event) => {
    const [from, to] = span();
    const width = canvas.clientWidth - (tail() > 0 ? STUB : 0);
    return Math.floor(Math.max(from, Math.min(to - 1e-9, from + (event.offsetX / width) * (to - from))));
  };
  canvas.addEventListener("pointerdown", (event) => {
    drag = offsetOf(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = offsetOf(event);
    if (drag === null) {
      // Hovering is not worth a word to the kernel.
      model.set("cursor", at);
    } else if (at !== drag) {
      model.set("offsets", [Math.min(at, drag), Math.max(at, drag)]);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag === null) return;
    const [from, to] = [drag, offsetOf(event)];
    drag = null;
    model.set("cursor", to);
    pick(from, to);
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // the page scrolls
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, offsetOf(event));
  }, { passive: false });

  // ---- what is shown ----
  const tail = () => {
    const beyond = value("end") - Math.max(value("window_end"), value("start"), span()[1]);
    return get("fit") === "window" && beyond > 0 ? beyond : 0;
  };
  function load(loaded) {
    columns = loaded;
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
    const counts = countsOf(pieces);
    const css = getComputedStyle(root);
    const colour = (name) => css.getPropertyValue(name).trim();
    const [start, windowEnd, logEnd] = ["start", "window_end", "end"].map(value);
    const marks = [
      { offset: start, words: `SPSO ${number(start)}` },
      { offset: Math.max(windowEnd, start), words: `SPEO ${number(Math.max(windowEnd, start))}` },
      { offset: logEnd, words: `log end ${number(logEnd)}` },
    ].filter(({ offset }) => !Number.isNaN(offset));
    paintStrip(canvas, {
      pieces, marks, span: span(), tail: tail(), cursor: get("cursor"), picked: get("offsets"), theme: root.dataset.theme,
      ink: colour("--sl-ink"), soft: colour("--sl-soft"), paper: colour("--sl-paper"), focus: colour("--sl-focus"),
    });
    const spent = performance.now() - begun;
    write(shown, counts, start, windowEnd, logEnd);
    Object.assign(root.dataset, { moment: get("moment"), counts: JSON.stringify(counts), paintMs: spent.toFixed(2) });
    Object.assign(root.dataset, { span: JSON.stringify(span()), pieces: pieces.size, tail: tail() });
    performance.measure("sharelag-strip", { start: begun, end: performance.now() });
  }
  function write(shown, counts, start, windowEnd, logEnd) {
    which.selectedIndex = shown;
    for (const made of fits) made.setAttribute("aria-pressed", String(made.dataset.fit === get("fit")));
    asTable.setAttribute("aria-expanded", String(!table.hidden));
    const at = utc(value("time"));
    const here_ = local(value("time"));
    when.textContent = `${at}${here_ ? ` (${here_})` : ""}, ${get("moment") + 1} of ${rows.length}`;
    time.hidden = rows.length < 2;
    slider.max = rows.length - 1;
    slider.value = get("moment");
    slider.setAttribute("aria-valuetext", at);
    const known = Number.isNaN(start) ? "The start offset is not known yet: the group has not fetched from this partition."
      : `SPSO ${number(start)}, SPEO ${number(Math.max(windowEnd, start))}, log end ${number(logEnd)}`;
    told.textContent = `${at}: ${known}. ${numbersOf()}`;
    const there = counts.map((count, kind) => (count ? `${KINDS[kind].words} ${number(count)}` : "")).filter(Boolean);
    say(`${isolated(textAt(columns.label, shown))}, ${at}: ${there.join(", ") || known}`);
    writeLegend(counts);
    writeSpot();
    if (!table.hidden) table.replaceChildren(pieceTable(pieces, at));
  }
  // A history has numbers of a window, but not where in it they are.
  function numbersOf() {
    if (columns.itemised.values[0]) return "";
    return `In the window: available ${number(value("available"))}, complete ${number(value("complete"))}; give windows with runs to see where.`;
  }
  function writeLegend(counts) {
    const shownKinds = KINDS.map((_, kind) => kind).filter((kind) => counts[kind] || kind === 0 || kind === 2 || kind === 4);
    const mark = `${root.dataset.theme} ${shownKinds}`;
    if (legend.dataset.mark !== mark) {
      legend.dataset.mark = mark;
      legend.replaceChildren(...shownKinds.map((kind) =>
        make("li", { title: KINDS[kind].means, data: { kind: KINDS[kind].name } }, swatch(kind, root.dataset.theme), make("span", {}, KINDS[kind].words), make("strong", {}))));
    }
    shownKinds.forEach((kind, n) => (legend.children[n].lastChild.textContent = number(counts[kind])));
  }
  function writeSpot() {
    const cursor = get("cursor");
    const n = cursor === null ? -1 : pieceAt(pieces, cursor);
    const [from, to] = reach();
    canvas.setAttribute("aria-valuemin", from);
    canvas.setAttribute("aria-valuemax", to - 1);
    canvas.setAttribute("aria-valuenow", cursor ?? from);
    let text = "No offset chosen: use the arrow keys, or point at one.";
    if (cursor !== null && n < 0) text = `Offset ${number(cursor)}: outside of the window and the log`;
    if (n >= 0) {
      const kind = pieces.kind[n];
      const count = pieces.count[n] ? `, delivery count ${pieces.count[n]}` : "";
      const what = kind === UNREAD || kind === FINISHED || kind === WINDOW ? "" : count;
      text = `Offset ${number(cursor)}: ${KINDS[kind].words}${what}; run ${number(pieces.first[n])} to ${number(pieces.end[n] - 1)}`;
    }
    const chosen = get("offsets");
    spot.textContent = text + (chosen.length ? ` \u2014 picked ${number(chosen[0])} to ${number(chosen[1])}` : "");
    canvas.setAttribute("aria-valuetext", text);
  }
  function hear({ keys: names, moment, offsets }) {
    const before = get("shown");
    const shown = names ? names.map((name) => columns.key.texts.indexOf(name)).find((n) => n >= 0) : undefined;
    if (shown !== undefined && shown !== before) {
      model.set("shown", shown);
      model.set("moment", columns.at.values[shown + 1] - columns.at.values[shown] - 1);
      if (get("fit") === "fixed") model.set("fit", "window");
    }
    if (moment !== undefined && moment !== null) {
      const at = columns.at.values[get("shown")];
      model.set("moment", lastBefore(columns.time.values, at, columns.at.values[get("shown") + 1], moment));
    }
    if (offsets !== undefined) model.set("offsets", offsets ?? []);
  }
  return { elements: [bar, canvas, spot, time, told, legend, table, help], load, paint, hear, stop: () => clearInterval(playing) };
}

export default { render: (context) => view(context, "strip", build, WATCHED) };
