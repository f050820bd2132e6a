// How wide are the columns of a long table, and how is it copied? Nothing of a page.

import { csvLine, number, shown, utc } from "./shared/format.js";
import { textAt } from "./shared/columns.js";

/** Widths in characters, of what a column can hold at most; fixed, so that nothing moves while scrolling. */
export function widths(columns, names, titles) {
  return names.map((name, n) => {
    const column = columns[name];
    let most = titles[n].length + 2;
    if (column.texts) for (const text of column.texts) most = Math.max(most, Math.min(text.length, 34));
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
