// Painting on a canvas: sharp on every screen, with the palette's colours and patterns.

import { make } from "./dom.js";
import { AVAILABLE, KINDS, LAST, PATTERNS, fillOf, inkOf, lastFill } from "./palette.js";

/** Make a canvas as wide as it is shown and `height` CSS pixels high; its context draws in CSS pixels. */
export function sized(canvas, height, width = canvas.clientWidth) {
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * scale)), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const brushesMade = new Map();

/** Fill styles of all kinds in a theme, made once, so that neighbours of a kind join without a seam. */
export function brushes(context, theme) {
  const name = `${theme} ${window.devicePixelRatio}`;
  // Forced colours can change into others while the name stays.
  if (theme === "forced" || !brushesMade.has(name)) {
    brushesMade.set(name, KINDS.map(({ pattern }, kind) => brush(context, PATTERNS[pattern], fillOf(kind, theme), inkOf(kind, theme))));
  }
  return brushesMade.get(name);
}

/** A fill style of a colour with a pattern over it. */
export function brush(context, pattern, fill, ink) {
  if (!pattern.lines && !pattern.dots) return fill;
  const scale = window.devicePixelRatio || 1;
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(8 * scale);
  const inside = tile.getContext("2d");
  inside.scale(tile.width / 8, tile.width / 8);
  inside.fillStyle = fill;
  inside.fillRect(0, 0, 8, 8);
  inside.strokeStyle = inside.fillStyle = ink;
  inside.lineWidth = 1;
  inside.beginPath();
  for (const [x0, y0, x1, y1] of pattern.lines ?? []) {
    inside.moveTo(x0, y0);
    inside.lineTo(x1, y1);
  }
  inside.stroke();
  for (const [x, y, radius] of pattern.dots ?? []) {
    inside.beginPath();
    inside.arc(x, y, radius, 0, 7);
    inside.fill();
  }
  const style = context.createPattern(tile, "repeat");
  style.setTransform(new DOMMatrix().scale(8 / tile.width));
  return style;
}

/** A rectangle for a legend, filled by `styleOf` its context, except `inset` pixels around. */
export function filledSwatch(styleOf, inset = 0) {
  const canvas = make("canvas", { class: "sl-swatch", "aria-hidden": "true" });
  const context = sized(canvas, 16, 24);
  context.fillStyle = styleOf(context);
  context.fillRect(inset, inset, 24 - 2 * inset, 16 - 2 * inset);
  return canvas;
}

/** A square of a kind for the legend. */
export function swatch(kind, theme) {
  const canvas = filledSwatch((context) => brushes(context, theme)[kind]);
  Object.assign(canvas.dataset, { fill: fillOf(kind, theme), pattern: KINDS[kind].pattern });
  return canvas;
}

/** The mark of an offset whose next delivery is its last: a bar along the foot of its state, apart from it by a line. */
export function paintLast(context, theme, paper, left, foot, width, height) {
  context.fillStyle = paper;
  context.fillRect(left, foot - height - 2, width, 2);
  context.fillStyle = lastFill(theme);
  context.fillRect(left, foot - height, width, height);
}

/** The same for the legend. */
export function lastSwatch(theme, paper) {
  const canvas = swatch(AVAILABLE, theme);
  canvas.dataset.pattern = LAST.name;
  paintLast(canvas.getContext("2d"), theme, paper, 0, 16, 24, 7);
  return canvas;
}
