// The pieces of a window as a table: the same numbers, for who cannot or does not want to see the picture.

import { make } from "./shared/dom.js";
import { number, place } from "./shared/format.js";
import { KINDS, LAST } from "./shared/palette.js";
import { isLast } from "./strip_math.js";

const MOST = 1000;

/** A real table of the first thousand pieces. */
export function pieceTable(pieces, time, limit = null) {
  const stateOf = (n) => KINDS[pieces.kind[n]].words + (isLast(pieces, n, limit) ? `, ${LAST.words.toLowerCase()}` : "");
  const body = make("tbody");
  for (let n = 0; n < Math.min(pieces.size, MOST); n++) {
    const cells = [place(pieces.first[n]), place(pieces.end[n] - 1), number(pieces.end[n] - pieces.first[n])];
    body.append(make("tr", {}, ...cells.map((text) => make("td", { class: "sl-number" }, text)),
      make("td", {}, stateOf(n)), make("td", { class: "sl-number" }, pieces.count[n] ? String(pieces.count[n]) : "-")));
  }
  const cut = pieces.size > MOST ? `; the first ${number(MOST)} of ${number(pieces.size)} runs` : "";
  const names = ["First offset", "Last offset", "Offsets", "State", "Delivery count"];
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col", class: name === "State" ? "" : "sl-number" }, name)));
  return make("table", {}, make("caption", {}, `As of ${time}${cut}`), make("thead", {}, head), body);
}
