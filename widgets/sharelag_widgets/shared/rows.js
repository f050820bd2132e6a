// Rows that are picked, by number here and by key among views.

import { rowBytes, rowNumbers } from "./columns.js";

/** Who is picked in a view of rows, and who was picked elsewhere. */
export function pickedRows(model, link) {
  let [keys, byKey] = [[], new Map()];
  let [mine, missing] = [null, false];
  return {
    load(columns) {
      keys = columns._key.texts;
      byKey = new Map();
      columns._key.values.forEach((code, row) => byKey.has(keys[code]) ? byKey.get(keys[code]).push(row) : byKey.set(keys[code], [row]));
    },
    /** Did another view, or Python, pick what is picked now? */
    get elsewhere() {
      return model.get("picked") !== mine && model.get("picked")?.byteLength > 0;
    },
    /** Did another view pick something that is not here? */
    get missing() {
      return missing;
    },
    rows: () => rowNumbers(model.get("picked")),
    /** Pick rows; or with `add` beside what is picked, of which a single row is picked no more. */
    pick(rows, columns, add = false) {
      const before = new Set(add ? this.rows() : []);
      const all = rows.length === 1 && before.delete(rows[0]) ? [...before] : [...new Set([...before, ...rows])];
      missing = false;
      mine = rowBytes(all);
      const chosen = [...new Set(Array.from(all, (row) => columns._key.texts[columns._key.values[row]]))];
      link.tell({ picked: mine }, { keys: chosen });
    },
    hear({ keys: chosen }) {
      if (!chosen) return;
      const found = chosen.flatMap((key) => byKey.get(key) ?? []);
      missing = chosen.length > 0 && found.length === 0;
      model.set("picked", rowBytes(found));
    },
  };
}

/** The rows whose texts hold all words of a filter, whatever their case. */
export function holding(columns, names, rows, filter) {
  const wanted = filter.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return rows;
  // Every distinct text is looked at once, however many rows have it.
  const hits = names.filter((name) => columns[name].texts).map((name) =>
    ({ values: columns[name].values, has: columns[name].texts.map((text) => wanted.map((word) => text.toLocaleLowerCase().includes(word))) }));
  return rows.filter((row) => wanted.every((_, n) => hits.some(({ values, has }) => values[row] >= 0 && has[values[row]][n])));
}

/** Rows by a column's values, ties as they were; what is not known comes last either way. */
export function sortedBy(column, rows, descending) {
  let { values } = column;
  if (column.texts) {
    const rank = ranksOf(column.texts);
    values = Float64Array.from(column.values, (code) => (code < 0 ? NaN : rank[code]));
  }
  const sign = descending ? -1 : 1;
  return Uint32Array.from(rows).sort((a, b) => {
    const [x, y] = [values[a], values[b]];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return sign * (x - y);
  });
}

const collator = new Intl.Collator("en", { numeric: true });

const ranked = new WeakMap();

/** The place of every distinct text among them; comparing as people do is slow, so it is done once. */
function ranksOf(texts) {
  if (!ranked.has(texts)) {
    const rank = new Float64Array(texts.length);
    texts.map((_, code) => code).sort((a, b) => collator.compare(texts[a], texts[b])).forEach((code, place) => (rank[code] = place));
    ranked.set(texts, rank);
  }
  return ranked.get(texts);
}
