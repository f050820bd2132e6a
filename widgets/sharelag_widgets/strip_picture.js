// Paints one moment of a window: states, delivery counts, start and end, what is picked.

import { ACQUIRED, AVAILABLE, KINDS, UNKNOWN, UNREAD, lastFill } from "./shared/palette.js";
import { brushes, paintLast, sized } from "./shared/paint.js";
import { number, place } from "./shared/format.js";
import { heights, isLast, stacks, ticks } from "./strip_math.js";

const STATES = { top: 18, height: 58 };
const COUNTS = { top: 80, height: 26 };
/** The minimum pixels of a lone offset that holds lag, and the largest number of lone ones. */
const [LEAST, MOST_LONE] = [4, 60];
const HOLDS_LAG = new Set([AVAILABLE, ACQUIRED, UNKNOWN]);
/** Height of the mark of offsets whose next delivery is their last. */
const LAST_HEIGHT = 8;
const AXIS = { top: 110, height: 34 };
/** Height of the picture, and the width of the stub that stands for an unread tail which is not to scale. */
export const HEIGHT = AXIS.top + AXIS.height;
export const STUB = 96;

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{pieces, span: number[], marks: {offset: number, words: string}[], tail: number, cursor: number | null,
 *   picked: number[], limit: number | null, theme: string, ink: string, soft: string, focus: string}} scene `tail` are unread offsets beyond the span
 */
export function paintStrip(canvas, scene) {
  const context = sized(canvas, HEIGHT);
  const width = canvas.clientWidth - (scene.tail > 0 ? STUB : 0);
  const [from, to] = scene.span;
  const styles = brushes(context, scene.theme);
  context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  const x = (offset) => ((offset - from) / (to - from)) * width;
  const most = width / (to - from) >= 1 ? paintEach(context, scene, styles, x, width) : paintStacks(context, scene, styles, width);
  paintLone(context, scene, styles, x, width);
  context.strokeStyle = scene.soft;
  context.lineWidth = 1;
  context.strokeRect(0.5, STATES.top + 0.5, Math.max(0, width - 1), STATES.height - 1);
  if (scene.tail > 0) paintTail(context, scene, styles, width);
  context.fillStyle = scene.soft;
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  if (most > 0) context.fillText(`delivery count, up to ${most}`, 2, COUNTS.top + COUNTS.height + 11);
  paintAxis(context, scene, x, width, most);
  paintMarks(context, scene, x, width);
  paintPicked(context, scene, x, width);
}

/** Each piece by itself; an offset is at least a pixel wide. */
function paintEach(context, { pieces, span: [from, to], ink, paper, theme, limit }, styles, x, width) {
  const wide = width / (to - from);
  let most = 1;
  for (let n = 0; n < pieces.size; n++) if (inside(pieces, n, from, to)) most = Math.max(most, pieces.count[n]);
  let any = 0;
  for (let n = 0; n < pieces.size; n++) {
    if (!inside(pieces, n, from, to)) continue;
    const [left, right] = [Math.max(0, x(pieces.first[n])), Math.min(width, x(pieces.end[n]))];
    context.fillStyle = styles[pieces.kind[n]];
    context.fillRect(left, STATES.top, right - left, STATES.height);
    const last = isLast(pieces, n, limit);
    if (last) paintLast(context, theme, paper, left, STATES.top + STATES.height, right - left, LAST_HEIGHT);
    const count = pieces.count[n];
    if (count > 0) {
      any = Math.max(any, count);
      const high = Math.max(2, (count / most) * COUNTS.height);
      context.fillStyle = last ? lastFill(theme) : ink;
      context.globalAlpha = last ? 1 : 0.62;
      context.fillRect(left, COUNTS.top + COUNTS.height - high, Math.max(1, right - left - (wide > 5 ? 1 : 0)), high);
      context.globalAlpha = 1;
      if (right - left >= 16) {
        context.fillStyle = paper;
        context.textAlign = "center";
        context.textBaseline = "alphabetic";
        if (high > 11) context.fillText(count, (left + right) / 2, COUNTS.top + COUNTS.height - 3);
      }
    }
  }
  if (wide >= 7) paintCells(context, [from, to], x, width, ink);
  return any;
}

/** Lines between offsets, when they are wide enough to be told apart. */
function paintCells(context, [from, to], x, width, ink) {
  context.strokeStyle = ink;
  context.globalAlpha = 0.28;
  context.beginPath();
  for (let offset = Math.ceil(from); offset < to; offset++) {
    const at = Math.round(x(offset)) + 0.5;
    if (at > width) break;
    context.moveTo(at, STATES.top);
    context.lineTo(at, STATES.top + STATES.height);
  }
  context.stroke();
  context.globalAlpha = 1;
}

/** Makes offsets that hold lag visible among finished ones, however few pixels they have. */
function paintLone(context, { pieces, span: [from, to], limit }, styles, x, width) {
  const lone = [];
  for (let n = 0; n < pieces.size && lone.length <= MOST_LONE; n++) {
    if (!HOLDS_LAG.has(pieces.kind[n]) || !inside(pieces, n, from, to)) continue;
    if (x(pieces.end[n]) - x(pieces.first[n]) < LEAST) lone.push(n);
  }
  if (lone.length > MOST_LONE) return; // so many form a visible pattern
  for (const n of lone) {
    const middle = (x(pieces.first[n]) + x(pieces.end[n])) / 2;
    context.fillStyle = styles[pieces.kind[n]];
    context.fillRect(Math.min(Math.max(0, middle - LEAST / 2), width - LEAST), STATES.top, LEAST, STATES.height - (isLast(pieces, n, limit) ? LAST_HEIGHT : 0));
  }
}

/** Several offsets per pixel: each column is split by its content; equal neighbours are painted at once. */
function paintStacks(context, { pieces, span: [from, to], ink, paper, theme, limit }, styles, width) {
  const columns = Math.max(1, Math.floor(width));
  const { share, most, last } = stacks(pieces, from, to, columns, limit);
  const highest = most.reduce((a, b) => Math.max(a, b), 0);
  let [begun, before] = [0, null];
  for (let column = 0; column <= columns; column++) {
    const now = column < columns ? heights(share, column, STATES.height) : null;
    if (before && now && now.every((high, kind) => high === before[kind])) continue;
    let bottom = STATES.top + STATES.height;
    for (let kind = 0; before && kind < KINDS.length; kind++) {
      if (!before[kind]) continue;
      context.fillStyle = styles[kind];
      context.fillRect(begun, bottom - before[kind], column - begun, before[kind]);
      bottom -= before[kind];
    }
    [begun, before] = [column, now];
  }
  for (let column = 0; column < columns; column++) {
    if (last[column]) paintLast(context, theme, paper, column, STATES.top + STATES.height, 1, LAST_HEIGHT);
    if (!most[column]) continue;
    const high = Math.max(2, (most[column] / highest) * COUNTS.height);
    context.fillStyle = last[column] ? lastFill(theme) : ink;
    context.globalAlpha = last[column] ? 1 : 0.62;
    context.fillRect(column, COUNTS.top + COUNTS.height - high, 1, high);
    context.globalAlpha = 1;
  }
  return highest;
}

function inside(pieces, n, from, to) {
  return pieces.end[n] > from && pieces.first[n] < to;
}

function paintTail(context, { tail, soft, ink }, styles, width) {
  const [left, right, top, bottom] = [width + 8, width + STUB - 1, STATES.top, STATES.top + STATES.height];
  context.beginPath();
  context.moveTo(left, top);
  context.lineTo(right - 12, top);
  context.lineTo(right, (top + bottom) / 2);
  context.lineTo(right - 12, bottom);
  context.lineTo(left, bottom);
  context.lineTo(left + 5, top + STATES.height * 0.66);
  context.lineTo(left - 5, top + STATES.height * 0.33);
  context.closePath();
  context.fillStyle = styles[UNREAD];
  context.fill();
  context.strokeStyle = soft;
  context.stroke();
  context.fillStyle = ink;
  context.textAlign = "center";
  context.textBaseline = "top";
  context.fillText(`+${number(tail)}`, (left + right) / 2 - 3, bottom + 6, right - left);
  context.fillText("unread", (left + right) / 2 - 3, bottom + 19);
}

function paintAxis(context, { span: [from, to], soft }, x, width, most) {
  context.fillStyle = context.strokeStyle = soft;
  context.textBaseline = "top";
  const top = most > 0 ? AXIS.top + 12 : AXIS.top - 24;
  for (const tick of ticks(from, to, width)) {
    const text = place(tick);
    const half = context.measureText(text).width / 2;
    const at = x(tick);
    context.fillRect(Math.min(Math.round(at), width - 1), STATES.top + STATES.height, 1, 4);
    if (at - half < 0 || at + half > width) continue;
    context.textAlign = "center";
    context.fillText(text, at, top);
  }
}

/** Carets above the states: start offset, end of the window, end of the log. */
function paintMarks(context, { marks, ink }, x, width) {
  context.fillStyle = ink;
  context.textBaseline = "bottom";
  let free = 0;
  for (const { offset, words } of marks) {
    const at = Math.max(4, Math.min(width - 4, x(offset)));
    if (x(offset) < -1 || x(offset) > width + 1) continue;
    context.beginPath();
    context.moveTo(at - 4, STATES.top - 6);
    context.lineTo(at + 4, STATES.top - 6);
    context.lineTo(at, STATES.top - 1);
    context.fill();
    const wide = context.measureText(words).width;
    const left = at + 7 + wide > width ? at - 7 - wide : at + 7;
    if (left < free) continue;
    context.textAlign = "left";
    context.fillText(words, left, STATES.top - 2);
    free = left + wide + 8;
  }
}

function paintPicked(context, { picked, cursor, span: [from, to], focus, ink }, x, width) {
  if (picked.length) {
    const [left, right] = [Math.max(0, x(picked[0])), Math.min(width, x(picked[1] + 1))];
    if (right > left) {
      context.strokeStyle = focus;
      context.lineWidth = 3;
      context.strokeRect(left, STATES.top - 1.5, Math.max(3, right - left), STATES.height + 3);
    }
  }
  if (cursor === null || cursor < from || cursor >= to) return;
  context.strokeStyle = ink;
  context.lineWidth = 2;
  context.strokeRect(x(cursor), STATES.top - 1, Math.max(3, x(cursor + 1) - x(cursor)), STATES.height + 2);
}
