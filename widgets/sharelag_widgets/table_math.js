// Column widths and CSV of a long table; without DOM.

import { formatOf, number, shown, utc } from "./shared/format.js";
import { textAt } from "./shared/columns.js";

/** Characters of a text at most, and values that are looked at to find the longest. */
const [LONGEST, LOOKED_AT] = [34, 200];

/** Widths in characters, of what a column can hold at most; fixed, so that nothing moves while scrolling. */
export function widths(columns, names, titles, sparks = []) {
  return names.map((name, n) => {
    const column = columns[name];
    let most = titles[n].length + 2;
    if (sparks.includes(name)) return Math.max(most, 11);
    if (column.texts) for (const text of column.texts) most = Math.max(most, Math.min(text.length, LONGEST));
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
    if (row < LOOKED_AT) most = Math.max(most, shown(column, row, name).length);
  }
  return low > high ? most : Math.max(most, ...[low, high].map((value) => (name.endsWith("_ms") ? 8 : formatOf(name)(value).length)));
}

/** Candidates for the widest cell of a column: its longest texts, or its first values and the extremes, as shown. */
export function longestTexts(column, name) {
  if (column.texts) return [...column.texts].sort((one, other) => other.length - one.length).slice(0, 20);
  const { values } = column;
  let [low, high] = [0, 0];
  for (let row = 0; row < values.length; row++) {
    if (values[row] < values[low] || Number.isNaN(values[low])) low = row;
    if (values[row] > values[high] || Number.isNaN(values[high])) high = row;
  }
  const looked = Array.from({ length: Math.min(values.length, LOOKED_AT) }, (_, row) => row);
  return values.length ? [...new Set([low, high, ...looked].map((row) => shown(column, row, name)))] : [];
}

/** The longest word of a heading, which is its width when wrapped. */
export function longestWord(title) {
  return title.split(" ").reduce((longest, word) => (word.length > longest.length ? word : longest), "");
}

/** Which columns are left out so that the others fit, the first of `optional` first. */
export function spared(names, needed, room, optional) {
  const left = [];
  let total = needed.reduce((sum, width) => sum + width, 0);
  for (const name of optional) {
    const place = names.indexOf(name);
    if (total <= room || room <= 0) break;
    if (place < 0) continue;
    left.push(name);
    total -= needed[place];
  }
  return left;
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

/** What a small line shows, in words. */
export function seriesWords(values) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return "not known";
  return `from ${number(known[0])} to ${number(known.at(-1))}, most ${number(Math.max(...known))}`;
}

/** Rows as CSV, as they are sorted, with the columns' own names; unknown is empty, times are ISO 8601. */
export function csv(columns, names, rows) {
  const lines = [csvLine(names)];
  for (const row of rows) lines.push(csvLine(names.map((name) => plain(columns[name], row)), names));
  return `${lines.join("\n")}\n`;
}

function plain(column, row) {
  if (column.texts) return textAt(column, row);
  const value = column.values[row];
  return column.kind === "time" && !Number.isNaN(value) ? utc(value).replace(" UTC", "Z").replace(" ", "T") : value;
}

/** One line of CSV, as commands print it (`sharelag/tables/lines.py`); `names` are the columns of its cells. */
export function csvLine(cells, names = []) {
  return cells.map((value, n) => csvCell(value, DISTINCT.test(names[n]))).join(",");
}

// Columns in which different names must look different.
const DISTINCT = /^(group_id|entity|resource|member_id|client_id|rack_id|leader_rack|rack)$/;

/** A cell that a spreadsheet would run as a formula is quoted with an apostrophe. */
function csvCell(value, isName) {
  if (Number.isNaN(value ?? NaN)) return "";
  if (typeof value === "number") return String(value);
  const distinct = isName ? value.replace(/\\(?=[\\xuUtrn]|(?! )[\p{C}\p{Z}]|$)/gu, "\\\\") : value;
  const text = (/^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(value) ? "'" : "") + distinct.replace(/(?! )[\p{C}\p{Z}]/gu, escapeOf);
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A character that is not printed, as Python writes it. */
function escapeOf(character) {
  const code = character.codePointAt(0);
  const [mark, length] = code < 256 ? ["x", 2] : code < 65_536 ? ["u", 4] : ["U", 8];
  return { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character] ?? `\\${mark}${code.toString(16).padStart(length, "0")}`;
}
