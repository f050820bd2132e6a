// Numbers and times as text.

const isNone = (value) => Number.isNaN(value ?? NaN);

/** A number as Python writes it: with three digits if small and not whole. */
export function number(value) {
  if (isNone(value)) return "-";
  const whole = value % 1 === 0 || Math.abs(value) >= 999.5;
  const [digits, rest] = String(whole ? Math.round(value) : +value.toPrecision(3)).split(".");
  if (digits.includes("e")) return String(value);
  return digits.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
}

/** An offset, a partition or an epoch: as commands take it. */
export function place(value) {
  return isNone(value) ? "-" : `${value}`;
}

/** A moment (milliseconds) in UTC, as ISO 8601 with a space. */
export function utc(milliseconds) {
  if (isNone(milliseconds)) return "time not known";
  const date = new Date(milliseconds);
  return Number.isNaN(+date) ? `${milliseconds} ms` : date.toISOString().replace("T", " ").replace("Z", " UTC");
}

/** The same in the reader's own time zone; empty where that is UTC. */
export function local(milliseconds) {
  const date = new Date(milliseconds);
  if (Number.isNaN(+date) || date.getTimezoneOffset() === 0) return "";
  return `${date.toLocaleTimeString("en-GB")} local time`;
}

/** `3 records`, `1 record`. */
export function counted(count, word) {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** A span of time in its two largest units, as Python writes it (`sharelag.durations.duration`): 1m 37s; a dash when not known. */
export function duration(milliseconds) {
  if (isNone(milliseconds)) return "-";
  if (milliseconds > 0 && milliseconds < 1) return `${number(+milliseconds.toPrecision(3))} ms`;
  const seconds = Math.abs(milliseconds) / 1000;
  return (milliseconds < 0 ? "-" : "") + (seconds < 60 ? `${number(+seconds.toPrecision(3))} s` : unitsOf(seconds).join(" "));
}

/** A span in its two largest units, separately; the second only if it is not 0. */
export function unitsOf(seconds) {
  let left = seconds;
  const units = Object.entries({ d: 86_400, h: 3600, m: 60, s: 1 }).filter(([, length]) => seconds >= length);
  return units.slice(0, 2).map(([unit, length]) => {
    const count = Math.floor(left / length);
    left -= count * length;
    return number(count) + unit;
  }).filter((part) => !part.startsWith("0"));
}

/** How numbers of a column are written, by its name. */
export function formatOf(name) {
  if (name.endsWith("_ms")) return duration;
  return /(offset|partition|epoch)$/.test(name) ? place : number;
}

/** How a value of a column is written: by the column's kind, and numbers by its name. */
export function shown(column, row, name) {
  const value = column.values[row];
  if (column.texts) return column.texts[value] ?? "-";
  if (column.kind === "time") return isNone(value) ? "-" : utc(value);
  return formatOf(name)(value);
}

/** A name within a sentence: one that runs from right to left must not turn what follows. */
export function isolated(name) {
  return /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc]/.test(name) ? `\u2068${name}\u2069` : name;
}

// Names that would read badly word for word.
const HEADINGS = { cv: "Std dev/mean", group_id: "Group", max_mean: "Max/mean" };

/** A column's name as words. */
export function words(name) {
  if (Object.hasOwn(HEADINGS, name)) return HEADINGS[name];
  const text = name.replace(/_ms$/, "").replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
