// Positions of a window's offsets, and the content of each column of the picture; numbers only, without DOM.

import { AVAILABLE, FINISHED, KINDS, OTHER, UNKNOWN, UNREAD, WINDOW } from "./shared/palette.js";
import { firstOf } from "./shared/first.js";

/**
 * The pieces of one moment, ascending and without gaps from start offset to end.
 *
 * @param columns as `moment_columns` in window_strip.py packed them
 * @param {number} row
 * @returns {{first: Float64Array, end: Float64Array, kind: Uint8Array, count: Uint16Array, size: number}}
 */
export function piecesOf(columns, row) {
  const at = (name) => columns[name].values[row];
  const [start, head, windowEnd, end] = ["start", "head", "window_end", "end"].map(at);
  const [begin, stop] = [columns.runs_at.values[row], columns.runs_at.values[row + 1]];
  const room = 2 * (stop - begin) + 4;
  const pieces = {
    first: new Float64Array(room), end: new Float64Array(room), kind: new Uint8Array(room), count: new Uint16Array(room), size: 0,
  };
  if (Number.isNaN(start)) return pieces;
  const gap = columns.itemised.values[0] ? UNKNOWN : WINDOW;
  let place = start;
  const put = (until, kind, count = 0) => {
    if (!(until > place)) return;
    pieces.first[pieces.size] = place;
    pieces.end[pieces.size] = until;
    pieces.kind[pieces.size] = kind;
    pieces.count[pieces.size++] = count;
    place = until;
  };
  put(head, FINISHED);
  const [first, length, state, count] = ["run_first", "run_length", "run_state", "run_count"].map((name) => columns[name].values);
  for (let run = begin; run < stop; run++) {
    put(start + first[run], gap);
    put(start + first[run] + length[run], state[run] < UNKNOWN ? state[run] : OTHER, count[run]);
  }
  put(windowEnd, gap);
  put(end, UNREAD);
  return pieces;
}

/** Offsets of every kind, by its number. */
export function countsOf(pieces) {
  const counts = new Array(KINDS.length).fill(0);
  for (let n = 0; n < pieces.size; n++) counts[pieces.kind[n]] += pieces.end[n] - pieces.first[n];
  return counts;
}

/** Whether the next delivery of a piece's offsets is their last, where the limit is known. */
export function isLast(pieces, n, limit) {
  return limit > 0 && pieces.kind[n] === AVAILABLE && pieces.count[n] >= limit - 1;
}

/** Number of offsets whose next delivery is their last. */
export function lastCount(pieces, limit) {
  let count = 0;
  for (let n = 0; n < pieces.size; n++) if (isLast(pieces, n, limit)) count += pieces.end[n] - pieces.first[n];
  return count;
}

/** The piece that an offset is in, or -1. */
export function pieceAt(pieces, offset) {
  const n = firstAfter(pieces, offset);
  return n < pieces.size && pieces.first[n] <= offset ? n : -1;
}

const firstAfter = (pieces, offset) => firstOf(pieces.size, (n) => pieces.end[n] > offset);

/**
 * The content of each column of a picture with several offsets per column.
 *
 * @returns {{share: Float32Array, most: Uint16Array, last: Uint8Array}} offsets by kind of every column, one after
 *   the other, as shares of the column's offsets; its largest delivery count; and whether any offset's next
 *   delivery is its last
 */
export function stacks(pieces, from, to, columns, limit = null) {
  const kinds = KINDS.length;
  const [share, most] = [new Float32Array(columns * kinds), new Uint16Array(columns)];
  const marked = new Uint8Array(columns);
  const each = (to - from) / columns;
  for (let n = firstAfter(pieces, from); n < pieces.size && pieces.first[n] < to; n++) {
    const [low, high] = [Math.max(pieces.first[n], from), Math.min(pieces.end[n], to)];
    const last = Math.min(columns - 1, Math.ceil((high - from) / each) - 1);
    for (let column = Math.floor((low - from) / each); column <= last; column++) {
      const part = Math.min(high, from + (column + 1) * each) - Math.max(low, from + column * each);
      if (part <= 0) continue;
      share[column * kinds + pieces.kind[n]] += part / each;
      if (pieces.count[n] > most[column]) most[column] = pieces.count[n];
      if (isLast(pieces, n, limit)) marked[column] = 1;
    }
  }
  return { share, most, last: marked };
}

/**
 * Heights in pixels of a column's parts: each existing part gets at least one, so that a single offset among
 * thousands is still visible.
 */
export function heights(share, column, height) {
  const kinds = KINDS.length;
  const parts = share.subarray(column * kinds, (column + 1) * kinds);
  const made = new Array(kinds).fill(0);
  let [sum, largest] = [0, 0];
  for (let kind = 0; kind < kinds; kind++) {
    if (parts[kind] <= 0) continue;
    made[kind] = Math.max(1, Math.round(parts[kind] * height));
    sum += made[kind];
    if (made[kind] > made[largest]) largest = kind;
  }
  if (sum > 0) made[largest] += height - sum;
  return made;
}

/** The offsets to show: the window, the window of all moments, or all of the log. */
export function extent(columns, fit, row, rows) {
  const value = (name, at) => columns[name].values[at];
  const among = fit === "window" ? [row] : rows;
  let [from, to] = [Infinity, -Infinity];
  for (const at of among) {
    if (Number.isNaN(value("start", at))) continue;
    from = Math.min(from, value("start", at));
    const windowEnd = Math.max(value("window_end", at), value("start", at));
    const end = value("end", at);
    to = Math.max(to, fit === "log" && end > windowEnd ? end : windowEnd);
  }
  if (from === Infinity) return [0, 1];
  return [from, Math.max(to, from + 1)];
}

/** A span made `factor` times as wide around `at`, never below four offsets, nor wider than `limits`. */
export function zoomed([from, to], factor, at, limits) {
  const width = Math.min(Math.max((to - from) * factor, 4), Math.max(limits[1] - limits[0], 4));
  const share = Math.min(Math.max((at - from) / (to - from), 0), 1);
  return within([at - share * width, at + (1 - share) * width], limits);
}

/** A span moved by a part of its width. */
export function panned([from, to], part, limits) {
  const by = (to - from) * part;
  return within([from + by, to + by], limits);
}

function within([from, to], [low, high]) {
  const width = to - from;
  if (width >= high - low) return [low, Math.max(high, low + 4)];
  if (from < low) return [low, low + width];
  return to > high ? [high - width, high] : [from, to];
}

/** Round offsets to write under a picture, about one every hundred pixels. */
export function ticks(from, to, width) {
  const wanted = (to - from) / Math.max(2, width / 110);
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted) ?? power;
  const made = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) made.push(tick);
  return made;
}

/** The last of some ascending times that is not after `moment`; the first where all are. */
export function lastBefore(times, from, to, moment) {
  let found = from;
  for (let row = from; row < to; row++) if (times[row] <= moment + 0.5) found = row;
  return found - from;
}
