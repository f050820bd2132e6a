// How wide are the columns of a long table, and how is it copied? Nothing of a page.

import { csvLine, number, shown, utc } from "./shared/format.js";
import { textAt } from "./shared/columns.js";

/** Widths in characters, of what a column can hold at most; fixed, so that nothing moves while scrolling. */
export function widths(columns, names, titles, sparks = [], longestText = 34) {
  return names.map((name, n) => {
    const column = columns[name];
    let most = titles[n].length + 2;
    if (sparks.includes(name)) return Math.max(most, longestText < 34 ? 9 : 11);
    if (column.texts) for (const text of column.texts) most = Math.max(most, Math.min(text.length, longestText));
    else if (column.kind === "time") most = Math.max(most, utc(0).length);
    else most = Math.max(most, longest(column, name));
    return most;
  });
}

function longest(column, name) {
  let most = 1;
  let [low, high] = [Infinity, -Infinity];
  for (let row = 0; row < column.values.length; row++) {
    const value = column.values[row];
    if (value < low) low = value;
    if (value > high) high = value;
    if (row < 200) most = Math.max(most, shown(column, row, name).length);
  }
  return low > high ? most : Math.max(most, ...[low, high].map((value) => (name.endsWith("_ms") ? 8 : number(value).length)));
}

/** Points of the lines through values, as SVG takes them: one line between each two gaps; 0 is at the bottom. */
export function points(values, width, height) {
  const most = Math.max(1, ...values.filter((value) => value !== null));
  const lines = [[]];
  values.forEach((value, n) => {
    if (value === null) lines.push([]);
    else lines.at(-1).push(`${(1 + (n * (width - 2)) / Math.max(1, values.length - 1)).toFixed(1)},${(height - 2 - (value * (height - 4)) / most).toFixed(1)}`);
  });
  return lines.filter((line) => line.length).map((line) => (line.length > 1 ? line : [line[0], line[0]]).join(" "));
}

/** What a small line shows, for who cannot see it. */
export function seriesWords(values) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return "not known";
  return `from ${number(known[0])} to ${number(known.at(-1))}, most ${number(Math.max(...known))}`;
}

/** Rows as CSV, as they are sorted, with the columns' own names; unknown is empty, times are ISO 8601. */
export function csv(columns, names, rows) {
  const lines = [csvLine(names)];
  for (const row of rows) lines.push(csvLine(names.map((name) => plain(columns[name], row))));
  return `${lines.join("\n")}\n`;
}

function plain(column, row) {
  if (column.texts) return textAt(column, row);
  const value = column.values[row];
  return column.kind === "time" && !Number.isNaN(value) ? utc(value).replace(" UTC", "Z").replace(" ", "T") : value;
}
