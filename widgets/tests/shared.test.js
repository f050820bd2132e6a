import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { gzipSync } from "node:zlib";

import { age } from "../sharelag_widgets/dashboards/header.js";
import { isUnknown, rowBytes, rowNumbers, textAt, unpack } from "../sharelag_widgets/shared/columns.js";
import { duration, formatOf, isolated, local, number, shown, utc, words } from "../sharelag_widgets/shared/format.js";
import { hearing } from "../sharelag_widgets/shared/hearing.js";
import { KINDS, PATTERNS, fillOf, ladder, luminance } from "../sharelag_widgets/shared/palette.js";
import { awaitPlotly } from "../sharelag_widgets/plotly_once.js";
import { asText, asTitle, fitted, keyOf, pointsOf, textTrace, timeOf, withArrays } from "../sharelag_widgets/plot_math.js";

test("numbers, times and durations as people read them", () => {
  assert.deepEqual([0, 999, 1000, -1234567, 0.25, 123.456, 1234.5, NaN, null].map(number), ["0", "999", "1,000", "-1,234,567", "0.25", "123", "1,235", "-", "-"]);
  const written = { start_offset: "1234567", partition: "1234567", lag: "1,234,567", partitions: "1,234,567", age_ms: "20m 34s" };
  for (const [name, text] of Object.entries(written)) assert.equal(formatOf(name)(1234567), text);
  assert.equal(utc(Date.UTC(2026, 10, 21, 3, 10, 5, 7)), "2026-11-21 03:10:05.007 UTC");
  assert.equal(utc(NaN), "time not known");
  assert.equal(utc(9e15), "9000000000000000 ms");
  assert.equal(local(NaN), "");
  assert.equal(shown({ values: [61_000], kind: "number" }, 0, "age_ms"), "1m 1s");
  const measures = { texts: ["arrived"], values: [0, 1], kind: "text" };
  assert.deepEqual([0, 1].map((row) => shown(measures, row, "measure")), ["arrived", "-"]);
  assert.equal(words("window_available"), "Window available");
  assert.equal(words("age_ms"), "Age");
  assert.equal(words("group_id"), "Group");
  assert.equal(words("cv"), "Std dev/mean");
});

test("spans of time have one form, in their two largest units", () => {
  const known = [[0, "0 s"], [0.425, "0.425 ms"], [4.2, "0.0042 s"], [950, "0.95 s"], [59_940, "59.9 s"], [60_000, "1m"], [97_999, "1m 37s"], [-97_000, "-1m 37s"], [7_200_000, "2h"]];
  known.push([86_400_000, "1d"], [200_000_000, "2d 7h"], [1234 * 86_400_000, "1,234d"], [NaN, "-"], [null, "-"]);
  assert.deepEqual(known.map(([span]) => duration(span)), known.map(([, words]) => words));
});

test("an age changes in steps, and leaves out what is none", () => {
  const known = [[0, "0 s"], [4999, "0 s"], [38_000, "35 s"], [61_000, "1m"], [3_599_000, "59m"], [3_600_000, "1h"], [7_500_000, "2h 5m"], [86_400_000, "1d"], [104_400_000, "1d 5h"]];
  assert.deepEqual(known.map(([span]) => age(span)), known.map(([, words]) => words));
});

test("a name from right to left turns nothing but itself", () => {
  assert.equal(isolated("orders"), "orders");
  assert.equal(isolated("a\u202eb"), "\u2068a\u202eb\u2069");
  assert.equal(isolated("\u05d0"), "\u2068\u05d0\u2069");
});

test("bytes of row numbers go there and back", () => {
  assert.deepEqual([...rowNumbers(rowBytes([70_000, 3, 10]))], [3, 10, 70_000]);
  assert.deepEqual([...rowNumbers(null)], []);
  const shifted = new DataView(new Uint8Array([9, 1, 0, 0, 0]).buffer, 1);
  assert.deepEqual([...rowNumbers(shifted)], [1]);
});

test("data of another version is refused with words", async () => {
  await assert.rejects(unpack(new DataView(new ArrayBuffer(16))), /another version of sharelag: restart the kernel/);
  assert.deepEqual(await unpack(null), {});
});

test("columns say what is not known", () => {
  const text = { values: [0, -1], texts: ["a"] };
  assert.deepEqual([isUnknown(text, 0), isUnknown(text, 1), textAt(text, 1)], [false, true, null]);
  assert.equal(isUnknown({ values: [NaN] }, 0), true);
});

test("no two kinds share a pattern, and every pattern is there", () => {
  const drawn = KINDS.map(({ pattern }) => JSON.stringify(PATTERNS[pattern]));
  assert.equal(new Set(drawn).size, KINDS.length);
  assert.ok(!drawn.includes(undefined));
});

// Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB.
const SEEN = {
  protan: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deutan: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritan: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
  all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
};

const linear = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));

function lab(rgb) {
  const [r, g, b] = rgb.map((v) => Math.min(1, Math.max(0, v)));
  const xyz = [(0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047, 0.2126 * r + 0.7152 * g + 0.0722 * b, (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883];
  const [x, y, z] = xyz.map((v) => (v > 0.008856 ? Math.cbrt(v) : 7.787 * v + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

for (const theme of ["light", "dark"]) {
  test(`Kafka's four states stay apart for every kind of colour vision: ${theme}`, () => {
    const fills = [0, 1, 2, 4].map((kind) => fillOf(kind, theme));
    for (const [name, matrix] of Object.entries(SEEN)) {
      const labs = fills.map((fill) => lab(matrix.map((row) => row.reduce((sum, weight, n) => sum + weight * linear(fill)[n], 0))));
      for (let a = 0; a < 4; a++) {
        for (let b = 0; b < a; b++) {
          const apart = Math.hypot(...labs[a].map((value, n) => value - labs[b][n]));
          assert.ok(apart >= 20, `${name}: ${fills[a]} and ${fills[b]} are ${apart.toFixed(1)} apart`);
        }
      }
    }
    const light = fills.map(luminance).sort((a, b) => a - b);
    for (let n = 1; n < 4; n++) assert.ok((light[n] + 0.05) / (light[n - 1] + 0.05) >= 1.3, `${theme} ${light}`);
  });

  test(`more is always darker, or brighter on dark paper: ${theme}`, () => {
    const steps = ladder(theme).map(luminance);
    const rising = theme === "dark" ? steps : steps.toReversed();
    assert.ok(rising.every((value, n) => n === 0 || value > rising[n - 1]), String(steps));
  });
}

test("names are text for plotly, titles keep their line breaks", () => {
  assert.equal(asText("<b>a&b</b>"), "&lt;b>a&amp;b&lt;/b>");
  assert.equal(asTitle("Lag<br><b>of</b> <img src=x onerror=1> <a href=x>"), "Lag<br><b>of</b> &lt;img src=x onerror=1> &lt;a href=x>");
  assert.deepEqual(textTrace({ name: "<i>", x: ["<a>", 1], y: [1] }), { name: "&lt;i>", x: ["&lt;a>", 1], y: [1] });
});

test("names on axes are cut, or each n-th is left, until they fit", () => {
  const plain = (text) => text.replaceAll("&lt;", "<").replaceAll("&#36;", "$");
  const rows = { ticktext: ["short", `&lt;&#36;${"n".repeat(40)}-7`], tickvals: [0, 1] };
  assert.deepEqual(fitted(rows, "y", 1000, plain), rows);
  assert.deepEqual(fitted(rows, "y", 175, plain).ticktext, ["short", "&lt;&#36;nn\u2026nn-7"]);
  const columns = { ticktext: [..."abcdefghij"], tickvals: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], tickangle: -90 };
  assert.deepEqual(fitted(columns, "x", 210, plain), columns);
  assert.deepEqual(fitted(columns, "x", 60, plain), { ticktext: ["a", "e", "i"], tickvals: [0, 4, 8], tickangle: -90 });
  assert.deepEqual(fitted({ title: {} }, "x", 60, plain), { title: {} });
});

test("points of figures: lines, bars, heat maps; whom they are of", () => {
  const traces = [{ x: [1, 2], y: [3, 4], name: "lag", customdata: [["g", 0], ["g", 1]] }, { z: [[1, 2], [3, 4]], x: ["a", "b"], y: ["c", "d"] }];
  const points = pointsOf(traces);
  assert.equal(points.length, 6);
  assert.deepEqual([points[1].x, points[1].y, keyOf(points[1].custom)], [2, 4, '["g",1]']);
  assert.deepEqual([points[4].point, points[4].x, points[4].y, points[4].z, points[4].name], [[1, 0], "a", "d", 3, "trace 2"]);
  assert.equal(keyOf(undefined), null);
});

test("arrays come back, also those of two dimensions", () => {
  const columns = { 0: { values: new Uint8Array(new Float64Array([1.5, 2]).buffer) }, 1: { values: new Uint8Array([1, 2, 3, 4, 5, 6]) } };
  const made = withArrays({ y: { dtype: "f8", array: 0 }, z: [{ dtype: "i1", shape: "2, 3", array: 1 }], n: null }, columns);
  assert.deepEqual([...made.y], [1.5, 2]);
  assert.deepEqual(made.z[0].map((row) => [...row]), [[1, 2, 3], [4, 5, 6]]);
  assert.equal(made.n, null);
});

test("plotly's times are UTC", () => {
  const wanted = Date.UTC(2026, 10, 21, 3, 10);
  assert.deepEqual(["2026-11-21 03:10", "2026-11-21T03:10:00", "2026-11-21T04:10:00+01:00", wanted].map(timeOf), [wanted, wanted, wanted, wanted]);
});

/** A model whose messages reach a kernel; `answer` lets that work through them, as far as it is there. */
function kernel() {
  const [inbox, code] = [[], new DataView(new Uint8Array(gzipSync("module.exports = { version: 'ours' };")).buffer)];
  const ours = { isGone: false, sent: [], answer: () => inbox.splice(0).forEach((one) => one()), model };
  function model() {
    const listeners = {};
    const emit = (event, ...what) => [...(listeners[event] ?? [])].forEach((act) => act(...what));
    return {
      emit,
      on: (event, act) => (listeners[event] ??= new Set()).add(act),
      off: (event, act) => listeners[event]?.delete(act),
      send(message) {
        if (ours.isGone) throw new Error("Cannot send");
        ours.sent.push(message.want ?? "knock");
        inbox.push(() => (message.want ? emit("msg:custom", { plotly: true }, [code]) : emit("msg:custom", { pong: message.ping }, [])));
      },
    };
  }
  return ours;
}

/** A figure that waits: what it was told, and what came. */
function waiting(model) {
  const figure = { told: [], came: null };
  figure.stop = awaitPlotly(model, { told: (how) => figure.told.push(how), here: (library) => (figure.came = library.version), failed: (error) => (figure.came = error) });
  return figure;
}

async function withoutPlotly(act) {
  delete globalThis.sharelagKnocks;
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    await act();
  } finally {
    mock.timers.reset();
    delete globalThis.Plotly;
  }
}

const arrived = async () => {
  for (const end = Date.now() + 10_000; !globalThis.Plotly && Date.now() < end; ) await new Promise((done) => setImmediate(done));
};

test("plotly.js crosses once, however many figures wait and however long the kernel is busy", () => withoutPlotly(async () => {
  const ours = kernel();
  const figures = Array.from({ length: 5 }, () => waiting(ours.model()));
  mock.timers.tick(3_999);
  assert.deepEqual(figures[0].told, [""]);
  mock.timers.tick(1);
  assert.equal(figures[0].told.at(-1), "busy");
  for (let minute = 0; minute < 60; minute++) mock.timers.tick(60_000);
  assert.equal(figures[4].told.at(-1), "silent");
  assert.ok(ours.sent.length < 5 * 70, `${ours.sent.length} messages in an hour`);
  ours.answer();
  ours.answer(); // what was asked because of the first answers
  await arrived();
  assert.deepEqual(figures.map(({ came }) => came), Array(5).fill("ours"));
  assert.equal(ours.sent.filter((what) => what === "plotly").length, 1);
}));

test("a figure that goes while it asks leaves the others to ask", () => withoutPlotly(async () => {
  const [ended, next] = [kernel(), kernel()];
  const [first, second] = [waiting(ended.model()), waiting(next.model())];
  ended.answer();
  assert.deepEqual([ended.sent, next.sent], [["knock", "plotly"], ["knock"]]);
  first.stop();
  next.answer();
  next.answer();
  await arrived();
  assert.deepEqual([first.came, second.came], [null, "ours"]);
}));

test("an answer that never comes is asked for again, and a kernel that ended is told, and taken back", () => withoutPlotly(async () => {
  const [lost, ours] = [kernel(), kernel()];
  const [first, second] = [waiting(lost.model()), waiting(ours.model())];
  lost.answer(); // and does what it is asked for no more
  lost.isGone = true;
  mock.timers.tick(5_000);
  assert.deepEqual([first.told.at(-1), second.told.at(-1)], ["gone", "busy"]);
  ours.answer();
  ours.answer();
  await arrived();
  assert.deepEqual([first.came, second.came], ["ours", "ours"]);
}));

test("a kernel that comes back is heard", () => withoutPlotly(async () => {
  const ours = kernel();
  ours.isGone = true;
  const model = ours.model();
  const figure = waiting(model);
  assert.deepEqual(figure.told, ["gone"]);
  ours.isGone = false;
  model.emit("comm_live_update");
  assert.equal(figure.told.at(-1), "");
  ours.answer();
  ours.answer();
  await arrived();
  assert.equal(figure.came, "ours");
}));

/** A model that came late: anywidget's promise has failed, and messages go past it through its base class. */
const lateModel = (send) => {
  class Base {
    _handle_comm_msg() {}
  }
  class Late extends Base {}
  const taken = [];
  const own = Object.assign(new Late(), { comm: { on_msg: (take) => taken.push(take), send } });
  own._handle_comm_msg = () => Promise.reject(new Error("too late"));
  return { taken, model: { get: () => "own", widget_manager: { get_model: async () => own } } };
};

test("a view that came late asks for what it missed, and one whose connection ended says so and works on", async () => {
  const warn = mock.method(console, "warn", () => {});
  const sent = [];
  const late = lateModel((message) => sent.push(message));
  await hearing(late.model);
  assert.deepEqual([sent, late.taken.length, warn.mock.callCount()], [[{ method: "request_state" }], 1, 0]);
  const dead = new Error("Cannot send: the connection is closed");
  await hearing(lateModel(() => { throw dead; }).model);
  assert.deepEqual(warn.mock.calls.map((call) => call.arguments.at(-1)), [dead]);
  warn.mock.restore();
});
