// Numbers, times and lines of CSV as text.

const THIN = "\u202f";

/** A number with thin spaces between thousands, of four digits if it is not whole; a dash when it is not known. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  const whole = value % 1 === 0 || Math.abs(value) >= 1000;
  const [digits, rest] = String(whole ? Math.round(value) : +value.toPrecision(4)).split(".");
  if (digits.includes("e")) return String(value);
  return digits.replace(/\B(?=(\d{3})+$)/g, THIN) + (rest ? `.${rest}` : "");
}

/** A moment (milliseconds) in UTC, as ISO 8601 with a space. */
export function utc(milliseconds) {
  if (milliseconds === null || milliseconds === undefined || Number.isNaN(milliseconds)) return "time not known";
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? `${milliseconds} ms` : date.toISOString().replace("T", " ").replace("Z", " UTC");
}

/** The same in the reader's own time zone; empty where that is UTC. */
export function local(milliseconds) {
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime()) || date.getTimezoneOffset() === 0) return "";
  return `${date.toLocaleTimeString("en-GB")} local time`;
}

/** `3 records`, `1 record`. */
export function counted(count, word) {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** One line of CSV. A cell that a spreadsheet would run as a formula is quoted with an apostrophe. */
export function csvLine(cells) {
  return cells.map(csvCell).join(",");
}

function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value === "number") return String(value);
  const text = (/^[=+\-@\t\r]/.test(value) ? "'" : "") + value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Milliseconds as people say it; a dash when not known. */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined || Number.isNaN(milliseconds)) return "-";
  const size = Math.abs(milliseconds);
  for (const [unit, length] of [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]]) {
    if (size >= length) return `${number(Number((milliseconds / length).toPrecision(3)))} ${unit}`;
  }
  return `${number(milliseconds)} ms`;
}

/** How a value of a column is written: by the column's kind, and durations by its name. */
export function shown(column, row, name) {
  const value = column.values[row];
  if (column.texts) return column.texts[value] ?? "-";
  if (column.kind === "time") return Number.isNaN(value) ? "-" : utc(value);
  return name.endsWith("_ms") ? duration(value) : number(value);
}

/** A name within a sentence: one that runs from right to left must not turn what follows. */
export function isolated(name) {
  return /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc]/.test(name) ? `\u2068${name}\u2069` : name;
}

/** A column's name as words. */
export function words(name) {
  const text = name.replace(/_ms$/, "").replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
