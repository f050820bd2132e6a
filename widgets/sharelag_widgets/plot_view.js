// A plotly figure: in the theme of the page, with points that the keyboard reaches, and its numbers as a table.

import { button, make, named, ownsKeys, takesKeys } from "./shared/dom.js";
import { counted, number, utc } from "./shared/format.js";
import { view } from "./shared/view.js";
import { asTitle, fitted, isOurs, isTime, keyOf, pointsOf, textTrace, tickOf, timeOf, withArrays } from "./plot_math.js";
import { awaitPlotly } from "./plotly_once.js";

const TABLE_ROWS = 500;
/** Pixels after which a press is a drag. */
const DRAG = 4;
const WATCHED = ["alt", "picked_keys", "picked_moment"];
const HELP = "Left and right: from point to point. Up and down: from trace to trace. Enter, space or a click: pick the point. Escape, or a click on what is picked: pick nothing. Dragging over a chart of time: through time.";
const WAITING = {
  busy: "The kernel is busy; the chart appears when it answers.",
  silent: "Python has not answered for a while: the kernel is busy with other cells, or it is a new one, and the cell has to run again. The chart appears when it answers; its numbers are here already, as a table.",
  gone: "The kernel of this chart has ended before the chart was drawn: run the cell again. Its numbers are here already, as a table.",
};
/** Pixels that the title of our own charts has (`sharelag.charts.figure`): above it, a line of it, a line of what stands below. */
const [ABOVE_TITLE, TITLE_LINE, FACT_LINE] = [24, 20, 16];
const COLOURS = { light: ["#0F5C9C", "#B35900", "#00785A", "#8A2E6B", "#4A1A5C", "#5A5F6B"], dark: ["#7DB7FF", "#F0A93B", "#3CC79B", "#E79ACB", "#C79BEA", "#B6BECB"] };

function build({ model, root, link, say, later, failed }) {
  let [figures, figure, library, points, active, drawn, width, legendRoom, gone, endWait, plain] = [{}, null, null, [], -1, "", null, 0, false, null, String];
  const get = (name) => model.get(name);
  const box = make("div", { class: "sl-plot" });
  const words = make("div", { class: "sl-words" });
  const wait = make("p", { class: "sl-wait", role: "status" });
  // The stage's label says what it shows.
  const image = make("img", { class: "sl-drawing", alt: "", hidden: true });
  const stage = ownsKeys(make("div", { class: "sl-stage", tabindex: 0, role: "group", "aria-roledescription": "chart" }, wait, image, box));
  const spot = make("p", { class: "sl-spot" });
  const asTable = button("Show as table", () => { table.hidden = !table.hidden; later(); }, { "aria-expanded": "false" });
  const table = ownsKeys(make("div", { class: "sl-scroll", hidden: true, tabindex: 0, role: "region", "aria-label": "The chart as a table" }));
  const bar = make("div", { class: "sl-bar" }, make("details", { class: "sl-soft" }, make("summary", {}, "Keys"), make("p", {}, HELP)), make("span", { class: "sl-push" }), asTable);

  // ---- user input ----
  function pick(point) {
    const key = point && keyOf(point.custom);
    const moment = point && get("times") ? timeOf(point.x) : NaN;
    const traits = { ...(key || !point ? { picked_keys: key ? [key] : [] } : {}), ...(get("times") && { picked_moment: Number.isNaN(moment) ? null : moment }) };
    const changes = { ...(traits.picked_keys && { keys: traits.picked_keys }), ...("picked_moment" in traits && { moment: traits.picked_moment }) };
    link.tell(traits, changes);
  }
  function go(place) {
    active = Math.max(0, Math.min(points.length - 1, place));
    const { curve, point } = points[active];
    try {
      library?.Fx.hover(box, [{ curveNumber: curve, pointNumber: point }]);
    } catch {
      // A trace that cannot be hovered by number: the words below the chart still say where we are.
    }
    write();
    say(spot.textContent);
  }
  const trace = (by) => {
    const now = points[Math.max(0, active)].curve + by;
    const found = points.findIndex(({ curve }) => curve === now);
    return found < 0 ? Math.max(0, active) : found;
  };
  const pickActive = () => active >= 0 && pick(points[active]);
  const keys = {
    ArrowLeft: () => go(active - 1),
    ArrowRight: () => go(active + 1),
    ArrowDown: () => go(trace(1)),
    ArrowUp: () => go(trace(-1)),
    Home: () => go(0),
    End: () => go(points.length - 1),
    Enter: pickActive,
    " ": pickActive,
    Escape: () => pick(null),
  };
  takesKeys(stage, ({ target, key, ctrlKey, metaKey }) => target === stage && points.length && !ctrlKey && !metaKey && keys[key]);

  // Dragging over a chart of time goes through time: other views follow at once, Python hears where it ended.
  function timeAt({ clientX }) {
    const axis = box._fullLayout?.xaxis;
    const plot = box.querySelector(".nsewdrag")?.getBoundingClientRect();
    if (!axis || !plot) return NaN;
    return timeOf(axis.p2d(Math.max(0, Math.min(plot.width, clientX - plot.left))));
  }
  // Where it began; whether the last press became a drag.
  let [dragged, wasDragged] = [null, false];
  function drag(event) {
    if (dragged === null || (!dragged.moved && Math.abs(event.clientX - dragged.from) < DRAG)) return;
    dragged.moved = true;
    dragged.time = timeAt(event);
    if (Number.isNaN(dragged.time)) return;
    model.set("picked_moment", dragged.time);
    link.show({ moment: dragged.time });
  }
  function drop(event) {
    const [was, released] = [dragged, event.type === "pointerup"];
    [dragged, wasDragged] = [null, Boolean(was?.moved)];
    if (was?.moved && released && !Number.isNaN(was.time)) link.tell({ picked_moment: was.time }, { moment: was.time });
  }
  box.addEventListener("pointerdown", (event) => {
    if (!get("times") || event.button !== 0 || !event.target.closest(".nsewdrag")) return;
    dragged = { from: event.clientX, moved: false };
    stage.focus({ preventScroll: true });
  }, true);
  const ends = [["pointermove", drag], ["pointerup", drop], ["pointercancel", drop]];
  for (const [name, act] of ends) globalThis.addEventListener(name, act);

  // ---- content ----
  function load(columns) {
    const read = ({ texts }) => withArrays(JSON.parse(texts[0]), columns);
    figures = { light: read(columns.spec), dark: read(columns.dark ?? columns.spec) };
    figure = figures.light;
    plain = isOurs(figure) ? unescaped : (text) => text;
    points = pointsOf(figure.data ?? []).map((one) => ({ ...one, name: plain(one.name), said: one.said && plain(one.said) }));
    words.replaceChildren(...wordsOf(figure.layout));
    active = -1;
    drawn = "";
    root.dataset.points = points.length;
  }
  const isOverTime = () => get("times") && figure.data.every(({ z }) => !z);
  function layoutOf(colour) {
    const ink = getComputedStyle(root).color; // plotly knows no system colours
    const axis = { gridcolor: "rgba(128,136,150,.28)", zerolinecolor: "rgba(128,136,150,.5)", linecolor: colour("--sl-line"), automargin: true, separatethousands: true, minexponent: 6 };
    const layout = hasWords(figure.layout) ? withoutWords(figure.layout) : { ...figure.layout };
    delete layout.template;
    for (const name of new Set(["xaxis", "yaxis", ...Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name))])) layout[name] = titled({ ...axis, ...layout[name] });
    if (isOurs(figure)) for (const name of ["xaxis", "yaxis"]) layout[name] = fitted(layout[name], name[0], stage.clientWidth, plain);
    // One line through all that goes over the same time, and what is nearest says it all: a label for each trace would cover the chart.
    if (isOverTime()) Object.assign(layout.xaxis, { showspikes: true, spikemode: "across", spikesnap: "cursor", spikethickness: 1, spikedash: "dot", spikecolor: ink });
    return {
      colorway: COLOURS[root.dataset.paper], margin: { t: layout.title ? 48 : 16, r: 16, b: 44, l: 56 }, height: 340, hovermode: "closest", ...titled(layout),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", uirevision: "kept",
      font: { family: getComputedStyle(root).fontFamily, size: 12, ...layout.font, color: ink }, autosize: true,
      ...(get("times") && { dragmode: false }), ...(isOverTime() && { hovermode: "closest", hoverdistance: -1, spikedistance: -1 }),
      hoverlabel: { bgcolor: colour("--sl-head"), bordercolor: colour("--sl-line"), font: { color: ink } }, legend: { bgcolor: "rgba(0,0,0,0)", ...layout.legend },
    };
  }
  /** What our own charts say stands above them, where it wraps at any width: plotly would cut it on a narrow page. */
  const hasWords = (layout) => isOurs(figure) && layout?.title?.text;
  function wordsOf(layout) {
    if (!hasWords(layout)) return [];
    const facts = layout.meta.facts.map((fact) => make("p", { class: "sl-soft" }, make("bdi", {}, fact)));
    return [make("p", { class: "sl-finding" }, make("bdi", {}, layout.meta.title)), ...facts];
  }
  function withoutWords({ title, ...layout }) {
    const lines = (text) => (text ? text.split("<br>").length : 0);
    const spared = ABOVE_TITLE + TITLE_LINE * lines(title.text) + FACT_LINE * lines(title.subtitle?.text);
    return { ...layout, height: layout.height - spared, margin: { ...layout.margin, t: layout.margin.t - spared } };
  }
  function titled(node) {
    const { title } = node;
    if (!title) return node;
    return { ...node, title: typeof title === "string" ? asTitle(title) : { ...title, text: asTitle(title.text) } };
  }
  function askForLibrary() {
    const told = (how) => {
      root.dataset.waits = how;
      const text = WAITING[how] ?? "";
      if (wait.textContent !== text) wait.textContent = text;
      image.hidden = !how || !get("drawing");
      if (!image.hidden) image.src = get("drawing");
    };
    const ended = (act) => (what) => {
      told("");
      endWait = null;
      act(what);
    };
    endWait ??= awaitPlotly(model, { told, failed: ended(failed), here: ended((found) => {
      library = found;
      later();
    }) });
  }
  async function draw() {
    const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
    figure = figures[root.dataset.paper];
    const layout = layoutOf(colour);
    const shapes = [...(layout.shapes ?? [])];
    if (get("times") && get("picked_moment") !== null) {
      const x = new Date(get("picked_moment")).toISOString();
      shapes.push({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: colour("--sl-focus"), width: 2, dash: "dot" } });
    }
    const begun = performance.now();
    const wanted = new Set(get("picked_keys"));
    const traces = (figure.data ?? []).map((one) => (isOurs(figure) ? withPicked(one, wanted) : textTrace(withPicked(one, wanted))));
    // When the window changes, plotly takes the height of the box for the chart's: without one of its own that
    // is whatever stands in it at that moment.
    box.style.height = `${layout.height + legendRoom}px`;
    await library.react(box, traces, { ...layout, shapes, height: layout.height + legendRoom }, { displaylogo: false, responsive: true, displayModeBar: false });
    // The lines that a legend needs on a narrow page are the chart's beyond its height: plotly takes them from the plot. A
    // legend with fewer lines than before stays where it was, over the plot, until it is placed once more.
    const { _size, margin } = box._fullLayout;
    const needed = Math.max(0, _size.t - margin.t);
    if (!gone && (needed !== legendRoom || (width !== null && width !== stage.clientWidth))) {
      legendRoom = needed;
      box.style.height = `${layout.height + needed}px`;
      await library.relayout(box, { "legend.y": box.layout?.legend?.y ?? 1, height: layout.height + needed });
    }
    width = stage.clientWidth;
    if (gone) return library.purge(box);
    box.removeAllListeners?.("plotly_click");
    box.on("plotly_click", ({ points: [hit] }) => {
      if (wasDragged) return; // for Plotly, too, a press that ends elsewhere is a click: on what was last pointed at
      stage.focus({ preventScroll: true });
      const [key, picked] = [keyOf(hit.customdata), get("picked_keys")];
      pick(key && picked.length === 1 && picked[0] === key ? null : { x: hit.x, custom: hit.customdata });
    });
    Object.assign(root.dataset, { drawn: Number(root.dataset.drawn ?? 0) + 1, paintMs: (performance.now() - begun).toFixed(2) });
  }
  function withPicked(one, wanted) {
    if (!wanted.size || !Array.isArray(one.customdata) || one.z) return one;
    const hits = one.customdata.flatMap((custom, n) => (wanted.has(keyOf(custom)) ? [n] : []));
    return hits.length ? { ...one, selectedpoints: hits } : one;
  }
  function paint() {
    stage.setAttribute("aria-label", `${get("alt")}: ${counted(points.length, "point")}`);
    asTable.setAttribute("aria-expanded", String(!table.hidden));
    write();
    if (!table.hidden) table.replaceChildren(pointTable());
    Object.assign(root.dataset, { keys: JSON.stringify(get("picked_keys")), pickedMoment: get("picked_moment") ?? "" });
    library ??= globalThis.Plotly ?? null;
    if (!library) return askForLibrary();
    const mark = JSON.stringify([root.dataset.loaded, root.dataset.look, get("picked_keys"), get("picked_moment"), stage.clientWidth]);
    if (mark === drawn || stage.clientWidth === 0) return null;
    drawn = mark;
    return draw().catch((error) => {
      drawn = "";
      throw error;
    });
  }
  const valueText = (value) => (typeof value === "number" ? number(value) : typeof value === "bigint" ? number(Number(value)) : isTime(value) ? utc(timeOf(value)) : String(value ?? "-"));
  function write() {
    const one = points[active];
    const text = one ? worded(one) : "";
    spot.replaceChildren(make("bdi", {}, text));
    root.dataset.active = one ? active : "";
  }
  const placeOf = (one, letter) => {
    const tick = tickOf(figure.layout, figure.data[one.curve], letter, one);
    return tick === undefined ? one[letter] : plain(String(tick));
  };
  function worded(one) {
    const said = one.said ?? `${valueText(placeOf(one, "x"))}, ${valueText(placeOf(one, "y"))}${one.z === undefined ? "" : `: ${valueText(one.z)}`}`;
    const isTold = one.said && (!figure.data[one.curve].name || said.toLowerCase().includes(one.name.toLowerCase()));
    return one.name && !isTold ? `${one.name}: ${said}` : said;
  }
  function pointTable() {
    const [withZ, withWords] = [points.some(({ z }) => z !== undefined), points.some(({ said }) => said)];
    const titleOf = (node) => plain(String(node?.title?.text ?? ""));
    const axis = (letter) => titleOf(figure.layout?.[`${letter}axis`]) || (figure.layout?.[`${letter}axis`]?.ticktext ? "of" : letter);
    const value = withZ && (titleOf(figure.data.find(({ z }) => z)?.colorbar) || "Value");
    const names = ["Trace", axis("x"), axis("y"), ...(withZ ? [value] : []), ...(withWords ? ["In words"] : [])];
    const body = make("tbody", {}, ...points.slice(0, TABLE_ROWS).map((one) =>
      make("tr", {}, make("td", {}, named(one.name || "-")), ...[placeOf(one, "x"), placeOf(one, "y"), ...(withZ ? [one.z] : []), ...(withWords ? [one.said] : [])].map((value) => make("td", { class: typeof value === "number" ? "sl-number" : "" }, make("bdi", {}, valueText(value)))))));
    const cut = points.length > TABLE_ROWS ? `The first ${TABLE_ROWS} of ${counted(points.length, "point")}` : `All ${counted(points.length, "point")}`;
    return make("table", {}, make("caption", {}, cut), make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, named(name))))), body);
  }
  function hear({ keys: chosen, moment }) {
    if (chosen) model.set("picked_keys", chosen);
    if (moment !== undefined && get("times")) model.set("picked_moment", moment);
  }
  const stop = () => {
    gone = true;
    for (const [name, act] of ends) globalThis.removeEventListener(name, act);
    endWait?.();
    if (library) library.purge(box);
  };
  return { elements: [words, stage, spot, bar, table], load, paint, hear, stop };
}

/** A text that was escaped for plotly (`sharelag.charts.text`), as people read it: `<br />` is within a line. */
function unescaped(text) {
  return new DOMParser().parseFromString(text.replaceAll("<br />", " ").replaceAll("<br>", ", "), "text/html").body.textContent;
}

export default { render: (context) => view(context, "chart", build, WATCHED) };
