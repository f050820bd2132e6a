// Rows that are picked, by number here and by key among views.

import { rowBytes, rowNumbers } from "./columns.js";

/** The picked rows of a view, and the rows picked elsewhere. */
export function pickedRows(model, link) {
  let [keys, byKey] = [[], new Map()];
  let [mine, missing] = [null, false];
  return {
    load(columns) {
      keys = columns._key.texts;
      byKey = new Map();
      columns._key.values.forEach((code, row) => byKey.has(keys[code]) ? byKey.get(keys[code]).push(row) : byKey.set(keys[code], [row]));
    },
    /** Whether another view, or Python, made the current pick. */
    get elsewhere() {
      return model.get("picked") !== mine && model.get("picked")?.byteLength > 0;
    },
    /** Whether another view picked something that is not here. */
    get missing() {
      return missing;
    },
    rows: () => rowNumbers(model.get("picked")),
    /** Pick rows; with `add`, in addition to the picked ones, or unpick a single picked row. */
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

/** The rows whose texts contain all words of a filter, ignoring case. */
export function holding(columns, names, rows, filter) {
  const wanted = filter.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return rows;
  // Each distinct text is checked once.
  const hits = names.filter((name) => columns[name].texts).map((name) =>
    ({ values: columns[name].values, has: columns[name].texts.map((text) => wanted.map((word) => text.toLocaleLowerCase().includes(word))) }));
  return rows.filter((row) => wanted.every((_, n) => hits.some(({ values, has }) => values[row] >= 0 && has[values[row]][n])));
}

/** Rows sorted by a column, stable; unknown values come last in both directions. */
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

/** The rank of each distinct text; locale-aware comparison is slow, so it is done once. */
function ranksOf(texts) {
  if (!ranked.has(texts)) {
    const rank = new Float64Array(texts.length);
    texts.map((_, code) => code).sort((a, b) => collator.compare(texts[a], texts[b])).forEach((code, place) => (rank[code] = place));
    ranked.set(texts, rank);
  }
  return ranked.get(texts);
}
