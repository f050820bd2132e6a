// Which cell lies where, and how dark is it? Numbers only, nothing of a page.

/** Steps of the ladder above zero. */
export const STEPS = 6;
const HEADING = 20;

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
 * Places of cells, line by line, with a heading above every band.
 *
 * @param {ArrayLike<number>} bands the band of every cell, equal ones side by side; -1: no heading
 * @param {number} width
 * @param {number} tallest the height to stay below, if cells need not be smaller than `smallest` for it
 */
export function layout(bands, width, tallest, smallest = 8, largest = 22) {
  let pitch = largest;
  let made = placed(bands, width, pitch);
  while (made.height > tallest && pitch > smallest) made = placed(bands, width, --pitch);
  return made;
}

function placed(bands, width, pitch) {
  const across = Math.max(1, Math.floor(width / pitch));
  const [lines, headings] = [[], []];
  let [y, n] = [0, 0];
  while (n < bands.length) {
    let end = n + 1;
    while (end < bands.length && bands[end] === bands[n]) end++;
    if (bands[n] >= 0) {
      headings.push({ y, band: bands[n], cells: end - n });
      y += HEADING;
    }
    for (let first = n; first < end; first += across) {
      lines.push({ y, first, end: Math.min(end, first + across) });
      y += pitch;
    }
    y += bands[n] >= 0 ? 6 : 0;
    n = end;
  }
  return { pitch, across, lines, headings, height: y, size: bands.length };
}

/** The line that a cell is in. */
export function lineOf({ lines }, cell) {
  let [low, high] = [0, lines.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lines[middle].end > cell) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Left and top of a cell. */
export function placeOf(made, cell) {
  const line = made.lines[lineOf(made, cell)];
  return [(cell - line.first) * made.pitch, line.y];
}

/** The cell at a point, or -1. */
export function cellAt(made, x, y) {
  const line = made.lines.find((one) => y >= one.y && y < one.y + made.pitch);
  if (!line) return -1;
  const cell = line.first + Math.floor(x / made.pitch);
  return x >= 0 && cell < line.end ? cell : -1;
}

/** The cells that a rectangle touches. */
export function cellsIn(made, [left, top, right, bottom]) {
  const found = [];
  for (const { y, first, end } of made.lines) {
    if (y + made.pitch <= top || y >= bottom) continue;
    const last = Math.min(end - 1, first + Math.floor(right / made.pitch));
    for (let cell = first + Math.max(0, Math.floor(left / made.pitch)); cell <= last; cell++) found.push(cell);
  }
  return found;
}

/** The cell above or below, as near as its line allows. */
export function beside(made, cell, by) {
  const at = lineOf(made, cell);
  const to = made.lines[Math.max(0, Math.min(made.lines.length - 1, at + by))];
  return Math.min(to.end - 1, to.first + (cell - made.lines[at].first));
}
