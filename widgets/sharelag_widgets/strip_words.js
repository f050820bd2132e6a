// A strip in words and as a table: the current offset, the picked ones, and the reachable ones.

import { make } from "./shared/dom.js";
import { number, place } from "./shared/format.js";
import { FINISHED, KINDS, LAST, UNREAD, WINDOW } from "./shared/palette.js";
import { isLast, pieceAt } from "./strip_math.js";

const MOST_PIECES = 1000;
/** What can be done on the picture. */
export const HELP = [
  "Left and right: offset. Shift with them: pick a range. Ctrl with them: next run. Page up and down: move on. G: go to an offset that you type. " +
    "[ and ]: moment before and after. P: play. < and >: slower and faster. Plus and minus: zoom. 0: fit. Enter: pick the run. Escape: pick nothing.",
  "Mouse: drag to pick a range. Zoomed in, drag with shift or with the middle button to move along. Ctrl and the wheel: zoom.",
];

/** The current offset, and the picked ones; either may be missing. */
export function spotWords(pieces, cursor, picked, limit = null) {
  const range = picked.length && (picked[0] === picked[1] ? place(picked[0]) : `${place(picked[0])} to ${place(picked[1])}`);
  if (cursor !== null) return cursorWords(pieces, cursor, limit) + (range ? ` \u2014 picked ${range}` : "");
  return range ? `You picked ${range}.` : "No offset chosen: use the arrow keys, or point at one.";
}

/** The current offset. */
export function cursorWords(pieces, cursor, limit = null) {
  const n = pieceAt(pieces, cursor);
  if (n < 0) return `Offset ${place(cursor)}: outside of the window and the log`;
  const kind = pieces.kind[n];
  const isCounted = pieces.count[n] && kind !== UNREAD && kind !== FINISHED && kind !== WINDOW;
  const count = isCounted ? `, delivery count ${pieces.count[n]}` : "";
  const last = isLast(pieces, n, limit) ? ` of ${limit}, ${LAST.words.toLowerCase()}` : "";
  return `Offset ${place(cursor)}: ${KINDS[kind].words}${count}${last}; run ${place(pieces.first[n])} to ${place(pieces.end[n] - 1)}`;
}

/**
 * A typed offset, with any thousands separators; or why it cannot be reached.
 *
 * @param {string} text
 * @param {[number, number]} reach the first existing offset, and the end
 * @returns {{offset: number} | {why: string}}
 */
export function offsetIn(text, [first, end]) {
  const there = `${place(first)} to ${place(end - 1)}`;
  const typed = text.trim();
  if (!/^(\d+|\d{1,3}([\s,._']\d{3})+)$/.test(typed)) return { why: `Type an offset as a whole number, from ${there}.` };
  const offset = Number(typed.replace(/\D/g, ""));
  if (offset < first || offset >= end) return { why: `Offset ${place(offset)} is out of range: at this moment there are ${there}.` };
  return { offset };
}

/** The first thousand pieces of a window as a table, for readers who cannot or do not want to use the picture. */
export function pieceTable(pieces, time, limit = null) {
  const stateOf = (n) => KINDS[pieces.kind[n]].words + (isLast(pieces, n, limit) ? `, ${LAST.words.toLowerCase()}` : "");
  const body = make("tbody");
  for (let n = 0; n < Math.min(pieces.size, MOST_PIECES); n++) {
    const cells = [place(pieces.first[n]), place(pieces.end[n] - 1), number(pieces.end[n] - pieces.first[n])];
    body.append(make("tr", {}, ...cells.map((text) => make("td", { class: "sl-number" }, text)),
      make("td", {}, stateOf(n)), make("td", { class: "sl-number" }, pieces.count[n] ? String(pieces.count[n]) : "-")));
  }
  const cut = pieces.size > MOST_PIECES ? `; the first ${number(MOST_PIECES)} of ${number(pieces.size)} runs` : "";
  const names = ["First offset", "Last offset", "Offsets", "State", "Delivery count"];
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col", class: name === "State" ? "" : "sl-number" }, name)));
  return make("table", {}, make("caption", {}, `As of ${time}${cut}`), make("thead", {}, head), body);
}
