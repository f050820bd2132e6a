// Positions and colour steps of cells, as numbers; without DOM.

import { firstOf } from "./shared/first.js";

/** Steps of the ladder above zero. */
export const STEPS = 6;
/** Pixels: the height of a heading, and the space between adjacent bands. */
const [HEADING, GAP] = [20, 24];

/**
 * Round lower bounds of the steps above the lowest, ascending: geometric for counts, even where values are below zero.
 * @param {ArrayLike<number>} values NaN is unknown
 */
export function bounds(values) {
  let [low, high, least] = [Infinity, -Infinity, Infinity];
  for (let n = 0; n < values.length; n++) {
    const value = values[n];
    if (Number.isNaN(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
    if (value > 0 && value < least) least = value;
  }
  if (!(high > low) && !(high > 0)) return [];
  const steps = Array.from({ length: STEPS }, (_, step) => step);
  if (low < 0) return steps.map((step) => low + ((high - low) * (step + 1)) / (STEPS + 1));
  const exact = steps.map((step) => least * (high / least) ** (step / STEPS));
  // Numbers that are close together would fall into one step between bounds of one digit.
  const digits = [[1, 2, 5], Array.from({ length: 90 }, (_, n) => 1 + n / 10), Array.from({ length: 900 }, (_, n) => 1 + n / 100)];
  const made = digits.map((allowed) => [...new Set(exact.map((value, step) => round(value, allowed, step === 0)))].filter((bound) => bound <= high));
  return made.find((bounds) => bounds.length === STEPS) ?? made.at(-1);
}

/** To the nearest of some digits by their ratio, or down to one: 1, 2, 5, 10, 20, ... */
function round(value, digits, down) {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  if (down) return Number(((digits.findLast((n) => n * power <= value * (1 + 1e-9)) ?? 1) * power).toPrecision(3));
  const apart = (n) => Math.abs(Math.log(value / (n * power)));
  const digit = [...digits, 10].reduce((best, n) => (apart(n) < apart(best) ? n : best));
  return Number((digit * power).toPrecision(3));
}

/** The step of a value: 0 below the first bound; -1 where it is not known. */
export function stepOf(value, steps) {
  if (Number.isNaN(value)) return -1;
  let step = 0;
  while (step < steps.length && value >= steps[step]) step++;
  return step;
}

/**
 * Positions of cells, line by line, with a heading above every band. Bands of one line share lines.
 *
 * @param {ArrayLike<number>} bands the band of every cell, equal ones side by side; -1: no heading
 * @param {number} width
 * @param {number} tallest the height to stay below, if cells need not be smaller than `smallest` for it
 * @param {number} heading the widest heading in pixels
 */
export function layout(bands, width, tallest, { smallest = 8, largest = 22, heading = Infinity } = {}) {
  let pitch = largest;
  let made = placed(bands, width, pitch, heading);
  while (made.height > tallest && pitch > smallest) made = placed(bands, width, --pitch, heading);
  return made;
}

function placed(bands, width, pitch, heading) {
  const across = Math.max(1, Math.floor(width / pitch));
  const runs = runsOf(bands);
  // A column is as wide as the widest band with its heading; there is one column if any needs more than half the width.
  const widest = Math.max(heading, ...runs.map(({ first, end }) => (end - first) * pitch)) + GAP;
  const columns = Math.max(1, Math.min(runs.length, Math.floor((width + GAP) / widest)));
  const each = columns > 1 ? (width + GAP) / columns : width + GAP;
  const [lines, headings] = [[], []];
  let [top, bottom] = [0, 0];
  runs.forEach(({ first: begin, end, band }, n) => {
    if (n % columns === 0) top = bottom;
    let y = top;
    const x = Math.floor((n % columns) * each);
    if (band >= 0) {
      headings.push({ x, y, width: each - GAP, band, cells: end - begin });
      y += HEADING;
    }
    for (let first = begin; first < end; first += across) {
      lines.push({ x, y, first, end: Math.min(end, first + across) });
      y += pitch;
    }
    bottom = Math.max(bottom, y + (band >= 0 ? 6 : 0));
  });
  return { pitch, across, lines, headings, height: bottom, size: bands.length };
}

function runsOf(bands) {
  const runs = [];
  for (let first = 0, end; first < bands.length; first = end) {
    for (end = first + 1; end < bands.length && bands[end] === bands[first]; end++);
    runs.push({ first, end, band: bands[first] });
  }
  return runs;
}

/** Left and top of a cell. */
export function placeOf(made, cell) {
  const line = made.lines[firstOf(made.lines.length, (n) => made.lines[n].end > cell)];
  return [line.x + (cell - line.first) * made.pitch, line.y];
}

/** The cell at a point, or -1. */
export function cellAt(made, x, y) {
  const line = made.lines.findLast((one) => y >= one.y && y < one.y + made.pitch && x >= one.x);
  if (!line) return -1;
  const cell = line.first + Math.floor((x - line.x) / made.pitch);
  return cell < line.end ? cell : -1;
}

/** The cells that a rectangle touches. */
export function cellsIn(made, [left, top, right, bottom]) {
  const found = [];
  for (const { x, y, first, end } of made.lines) {
    if (y + made.pitch <= top || y >= bottom) continue;
    const last = Math.min(end - 1, first + Math.floor((right - x) / made.pitch));
    for (let cell = first + Math.max(0, Math.floor((left - x) / made.pitch)); cell <= last; cell++) found.push(cell);
  }
  return found;
}

/** The cell above or below, as near as its line allows. */
export function beside(made, cell, by) {
  const [x, y] = placeOf(made, cell);
  const rows = [...new Set(made.lines.map((line) => line.y))].sort((one, other) => one - other);
  const to = rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(y) + by))];
  const there = made.lines.filter((line) => line.y === to);
  const line = there.findLast((one) => one.x <= x) ?? there[0];
  return Math.min(line.end - 1, line.first + Math.round((x - line.x) / made.pitch));
}
