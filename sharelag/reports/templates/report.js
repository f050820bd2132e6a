// The live parts of a report: charts in the reader's theme, widgets without a kernel, and the age of the data.

const unpacked = async (id) => {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
const imported = (code) => import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
const [dark, paper] = [matchMedia("(prefers-color-scheme: dark)"), matchMedia("print")];
const isDark = () => dark.matches && !paper.matches;
// Printing has no next frame: paint at once.
const frame = globalThis.requestAnimationFrame.bind(globalThis);
globalThis.requestAnimationFrame = (act) => (paper.matches ? (act(performance.now()), 0) : frame(act));
const failed = (place, error) => {
  place.className = "sr-missing";
  place.textContent = `This could not be drawn: ${error.message ?? error}. Try a current browser; the tables are complete without it.`;
};

// ---- charts: both themes are in the file ----
async function drawCharts(charts) {
  const library = await imported(`const module = { exports: {} }, exports = module.exports, define = undefined;\n${await unpacked("sr-plotly")}\nexport default module.exports;`);
  globalThis.Plotly = library.default;
  for (const { place, stage, figure } of charts) {
    try {
      await draw(stage, figure);
      place.dataset.drawn = "1";
    } catch (error) {
      failed(stage, error);
    }
  }
  // One at a time: a second draw would read sizes that the first is about to change.
  const last = new Map();
  const next = ({ stage, figure }) => (last.get(stage) ?? Promise.resolve()).then(() => draw(stage, figure)).catch((error) => failed(stage, error));
  const again = () => charts.forEach((chart) => last.set(chart.stage, next(chart)));
  for (const query of [dark, paper]) query.addEventListener("change", again);
  let [width, soon] = [innerWidth, 0];
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(soon);
    soon = setTimeout(again, 100);
  });
}
// Pixels: the width of A4 or Letter between margins, a line of text, a row of a chart, around a legend, a
// legend's symbol, and a character.
const [SHEET, LINE, ROW, GAP, SYMBOL, CHARACTER] = [680, 16, 26, 10, 46, 7];
async function draw(stage, figure) {
  const { data, layout } = isDark() && figure.dark ? figure.dark : figure.light;
  stage.parentElement.dataset.theme = isDark() ? "dark" : "light";
  const width = Math.floor(paper.matches ? Math.min(stage.clientWidth, SHEET) : stage.clientWidth);
  const plot = layout.height - layout.margin?.t - layout.margin?.b;
  // Copies, since plotly keeps its arguments, and the other theme may return.
  const own = { ...structuredClone(layout), autosize: false, width, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" };
  const lines = narrowed(own, width);
  // The plot's width is known once it is drawn; the legend depends on it, and the room above on the legend.
  await globalThis.Plotly.react(stage, structuredClone(data), { ...own, showlegend: false }, figure.config);
  const room = stage._fullLayout._size.w - SYMBOL;
  const traces = structuredClone(data).map((one) => (one.name ? { ...one, name: wrapped(one.name, room / CHARACTER) } : one));
  if (Number.isFinite(plot) && layout.meta?.title) {
    const tall = Math.max(fitNotes(stage, own, width), lines) * plot;
    for (const sure of [false, true]) {
      own.margin.t = sure ? Math.ceil(stage.querySelector(".legend")?.getBBox().height ?? 0) + 2 * GAP : layout.margin.t + 200;
      own.height = own.margin.t + tall + own.margin.b;
      await globalThis.Plotly.react(stage, traces, { ...own }, figure.config);
    }
  } else await globalThis.Plotly.react(stage, traces, own, figure.config);
  stage.style.height = `${stage.querySelector(".main-svg").clientHeight}px`;
}
// Notes beside rows that would not fit into the chart are wrapped, and all rows get more room.
function fitNotes(stage, layout, width) {
  const edge = stage.querySelector(".main-svg").getBoundingClientRect().left;
  let most = 1;
  for (const place of stage.querySelectorAll(".annotation")) {
    const note = layout.annotations?.[Number(place.dataset.index)];
    const box = place.querySelector(".annotation-text-g")?.getBoundingClientRect();
    if (!note || !box || (box.right <= edge + width - 2 && box.left >= edge)) continue;
    const free = note.xanchor === "left" ? edge + width - box.left - GAP : width - GAP;
    note.text = wrapped(note.text, (free / box.width) * note.text.length);
    note.align = "left";
    most = Math.max(most, note.text.split("<br>").length);
  }
  return Math.max(1, (most * LINE) / ROW);
}
// On a narrow screen, the names of rows would leave no room for the rows, so they are wrapped, too.
function narrowed(layout, width) {
  let most = 1;
  for (const name of Object.keys(layout).filter((one) => /^[xy]axis\d*$/.test(one))) {
    const axis = (layout[name] = { ...layout[name] });
    const title = axis.title?.text;
    if (title) axis.title = { ...axis.title, text: wrapped(title, (width - 80) / CHARACTER) };
    if (!Array.isArray(axis.ticktext) || name[0] !== "y") continue;
    axis.ticktext = axis.ticktext.map((text) => wrapped(String(text), (width * 0.3) / CHARACTER, true));
    most = Math.max(most, ...axis.ticktext.map((text) => text.split("<br>").length));
  }
  return Math.max(1, (most * LINE) / ROW);
}
function wrapped(text, most, inWords = false) {
  const lines = [""];
  // Never break a word that contains an entity.
  const pieces = (word) => (inWords && !word.includes("&") ? word.match(new RegExp(`.{1,${Math.floor(most)}}`, "gu")) ?? [word] : [word]);
  for (const word of text.split(" ").flatMap(pieces)) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length + 1 > most) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines.join("<br>");
}

// ---- the same as a table, made on request ----
const cell = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
const row = (kind, texts) => {
  const line = document.createElement("tr");
  line.append(...texts.map((text) => cell(kind, text)));
  return line;
};
// Texts of our charts are escaped for plotly; each point has words, which several traces may share.
const plain = (text) => new DOMParser().parseFromString(text.replaceAll("<br />", " ").replaceAll("<br>", ", "), "text/html").body.textContent;
const wordsOf = ({ hoverinfo, hovertext, text }) => (hoverinfo === "text" ? [hovertext ?? text].flat(2).filter(Boolean) : []);
function pointTable({ data, layout }, most = 500) {
  const words = data.filter(({ hoverinfo }) => hoverinfo !== "skip").map(wordsOf);
  const rows = [...new Set(layout.meta?.facts && words.every((some) => some.length) ? words.flat() : [])].map((text) => [plain(text)]);
  const heads = rows.length ? ["Points in words"] : ["Trace", ...["x", "y"].map((letter) => plain(layout[`${letter}axis`]?.title?.text ?? letter))];
  for (const { name = "", x, y, z } of rows.length ? [] : data) {
    const [across, down] = [x ?? [], y ?? []].map((values) => Array.from(values));
    if (z) Array.from(z).forEach((line, n) => Array.from(line).forEach((value, m) => rows.push([name, across[m] ?? m, down[n] ?? n, value])));
    else for (let n = 0; n < Math.max(across.length, down.length); n++) rows.push([name, across[n] ?? n, down[n] ?? n]);
  }
  const [table, head, body] = ["table", "thead", "tbody"].map((kind) => document.createElement(kind));
  table.className = "sr-table";
  const text = (value) => (value === null || value === undefined || Number.isNaN(value) ? "-" : typeof value === "number" ? String(Number(value.toPrecision(9))) : String(value));
  head.append(row("th", [...heads, ...(rows.some((one) => one.length > 3) ? ["Value"] : [])]));
  body.append(...rows.slice(0, most).map((one) => row("td", one.map(text))));
  const count = `${rows.length} point${rows.length === 1 ? "" : "s"}`;
  table.append(cell("caption", rows.length > most ? `The first ${most} of ${count}` : `All ${count}`), head, body);
  return table;
}

// ---- widgets: anywidget's model without Python ----
function modelOf({ state, buffers }) {
  const [values, heard] = [{ ...state }, new Map()];
  for (const [name, text] of Object.entries(buffers)) values[name] = new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const tell = (event, ...told) => [...(heard.get(event) ?? [])].forEach((act) => act(...told));
  return {
    get: (name) => values[name],
    set: (name, value) => {
      values[name] = value;
      tell(`change:${name}`, value);
    },
    on: (event, act) => heard.set(event, (heard.get(event) ?? new Set()).add(act)),
    off: (event, act) => heard.get(event)?.delete(act),
    save_changes() {},
    // There is no kernel to listen.
    send: (message) => message?.ping !== undefined && tell("msg:custom", { pong: message.ping }),
  };
}
const modules = new Map();
async function showWidget(place, widget) {
  if (!modules.has(widget.script)) modules.set(widget.script, unpacked(widget.script).then(imported));
  const { default: made } = await modules.get(widget.script);
  const view = typeof made === "function" ? await made() : made;
  const model = modelOf(widget);
  await view.initialize?.({ model });
  await view.render({ model, el: place });
  place.dataset.shown = "1";
}

// ---- the current age of the data ----
function tellAges() {
  const steps = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  for (const place of document.querySelectorAll("[data-since]")) {
    const seconds = Math.max(0, (Date.now() - Date.parse(place.dataset.since)) / 1000);
    const [size, unit] = steps.find(([one]) => seconds >= one) ?? steps[3];
    const count = Math.floor(seconds / size);
    place.textContent = `(${count} ${unit}${count === 1 ? "" : "s"} ago)`;
  }
}

tellAges();
setInterval(tellAges, 30_000);
const data = JSON.parse(await unpacked("sr-data"));
const charts = [...document.querySelectorAll("[data-chart]")].map((place) => ({ place, stage: place.querySelector(".sr-stage"), figure: data.charts[place.dataset.chart] }));
for (const { place, figure } of charts) {
  const fold = place.querySelector("details");
  fold.addEventListener("toggle", () => fold.open && fold.querySelector("div").replaceChildren(pointTable(figure.light)));
}
if (charts.length) await drawCharts(charts).catch((error) => charts.forEach(({ stage }) => failed(stage, error)));
await Promise.all([...document.querySelectorAll("[data-widget]")].map((place) => showWidget(place, data.widgets[place.dataset.widget]).catch((error) => failed(place, error))));
document.documentElement.dataset.ready = "1";
