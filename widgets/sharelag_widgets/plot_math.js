// The content of a figure: its arrays, its points in reading order, its rows as text; without DOM.

const ARRAYS = { f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, i2: Int16Array, u2: Uint16Array, i1: Int8Array, u1: Uint8Array, i8: BigInt64Array };

/** The figure with its arrays (columns "0", "1", ...) in place of their numbers. */
export function withArrays(node, columns) {
  if (Array.isArray(node)) return node.map((item) => withArrays(item, columns));
  if (!node || typeof node !== "object") return node;
  if ("array" in node && "dtype" in node) return arrayOf(node, columns[node.array].values);
  return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, withArrays(value, columns)]));
}

function arrayOf({ dtype, shape }, bytes) {
  const kind = ARRAYS[dtype];
  const flat = new kind(bytes.buffer, bytes.byteOffset, bytes.byteLength / kind.BYTES_PER_ELEMENT);
  const across = String(shape ?? "").split(",").map(Number);
  if (across.length < 2) return flat;
  return Array.from({ length: across[0] }, (_, row) => flat.subarray(row * across[1], (row + 1) * across[1]));
}

/** Is it a chart of `sharelag.charts`? Its texts are escaped for plotly already. */
export function isOurs(figure) {
  return Array.isArray(figure?.layout?.meta?.facts);
}

/**
 * Every point of a figure, trace by trace: where it is, what it is worth, whom it is of, what stands beside it when it is
 * pointed at (`said`; as it is given, so escaped or not).
 * @returns {{curve: number, point: number | number[], name: string, x, y, z, base, custom, said}[]}
 */
export function pointsOf(traces, most = 5000) {
  const found = [];
  traces.forEach((trace, curve) => {
    const name = String(trace.name ?? (traces.length > 1 ? `trace ${curve + 1}` : ""));
    if (trace.z && trace.z.length) {
      for (let row = 0; row < trace.z.length; row++) {
        for (let across = 0; across < trace.z[row].length && found.length < most; across++) {
          found.push({ curve, point: [row, across], name, x: at(trace.x, across), y: at(trace.y, row), z: trace.z[row][across], custom: trace.customdata?.[row]?.[across], said: saidAt(trace, (texts) => texts?.[row]?.[across]) });
        }
      }
      return;
    }
    const length = Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0, trace.values?.length ?? 0);
    for (let n = 0; n < length && found.length < most; n++) {
      found.push({ curve, point: n, name, x: at(trace.x ?? trace.labels, n), y: at(trace.y ?? trace.values, n), z: undefined, base: trace.base?.[n], custom: trace.customdata?.[n], said: saidAt(trace, (texts) => texts?.[n]) });
    }
  });
  return found;
}

function saidAt(trace, of) {
  const texts = trace.hovertext ?? trace.text;
  return trace.hoverinfo === "text" ? (typeof texts === "string" ? texts : of(texts)) || undefined : undefined;
}

/** What stands at a point's place on an axis of rows, where a number is only the row's; undefined on other axes. */
export function tickOf(layout, trace, letter, point) {
  const axis = layout?.[`${letter}axis${(trace[`${letter}axis`] ?? letter).slice(1)}`];
  if (!axis?.ticktext || !axis.tickvals) return undefined;
  const isLength = typeof point.base === "number" && letter === (trace.orientation === "h" ? "x" : "y"); // bars begin at their base
  const place = isLength ? point.base + point[letter] / 2 : point[letter];
  return axis.ticktext[axis.tickvals.findIndex((value) => value === place || Math.abs(value - place) < 0.01)];
}

function at(values, n) {
  return values && values.length ? values[n] : n;
}

/** An axis whose names fit: of rows long ones lose their middle, of columns each n-th is left. */
export function fitted({ ticktext: names, ...axis }, letter, width, plain) {
  if (!names) return axis;
  const half = Math.max(1, Math.floor(width / 35) - 1);
  const long = new RegExp(`^(.{${half}}).{2,}(.{${half}})$`, "su");
  const cut = (name) => (long.test(plain(name)) ? asText(plain(name).replace(long, "$1\u2026$2")).replaceAll("$", "&#36;") : name);
  if (letter === "y") return { ...axis, ticktext: names.map(cut) };
  const each = axis.tickangle ? Math.ceil((20 * names.length) / Math.abs(Math.sin(axis.tickangle / 57.3)) / width) : 1;
  const [ticktext, tickvals] = [names, axis.tickvals].map((all) => all.filter((_, n) => n % each === 0));
  return { ...axis, ticktext, tickvals };
}

/** A name as text for plotly, which takes some tags for its own. */
export function asText(text) {
  return typeof text === "string" ? text.replaceAll("&", "&amp;").replaceAll("<", "&lt;") : text;
}

/** What a figure's author wrote: line breaks, bold and the like stay, every other tag is text. */
export function asTitle(text) {
  return typeof text === "string" ? text.replace(/<(?!\/?(?:br|b|i|sub|sup)\s*\/?>)/g, "&lt;") : text;
}

/** A trace whose names and categories are text. */
export function textTrace(trace) {
  const made = { ...trace };
  for (const name of ["name", "legendgroup", "text", "hovertext", "x", "y", "labels", "parents", "ids"]) {
    if (typeof made[name] === "string") made[name] = asText(made[name]);
    else if (Array.isArray(made[name]) && made[name].some((item) => typeof item === "string")) made[name] = made[name].map(asText);
  }
  return made;
}

/** The key that a point names, as views tell it to each other; null if it names none. */
export function keyOf(custom) {
  return Array.isArray(custom) && custom.length > 0 ? JSON.stringify(custom) : null;
}

/** Is this one of plotly's times? */
export function isTime(x) {
  return typeof x === "string" && /^\d{4}-\d\d-\d\d[T ]\d\d:/.test(x);
}

/** A time of plotly's, which are UTC without saying so, in milliseconds; NaN if it is none. */
export function timeOf(x) {
  if (typeof x === "number") return x;
  const text = String(x).replace(" ", "T");
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/.test(text) || !text.includes("T") ? text : `${text}Z`);
}
