// Paints the visible cells.

import { brush, brushes, filledSwatch, sized } from "./shared/paint.js";
import { PATTERNS, ladder } from "./shared/palette.js";
import { STEPS, placeOf } from "./grid_math.js";

// Verdicts use the fills of the kinds of offsets that are easiest to tell apart.
const VERDICTS = [0, 1, 2, 4, 3, 5, 10];

/**
 * @param {HTMLCanvasElement} canvas as high as what is in sight; it stays there while the ground moves
 * @param scene places, rows of cells, steps, what is picked, colours
 */
export function paintGrid(canvas, scene) {
  const { made, cells, stepAt, top, height, theme, texts } = scene;
  const context = sized(canvas, Math.max(1, height));
  const styles = stylesOf(context, theme, texts);
  const size = made.pitch - (made.pitch > 9 ? 2 : 1);
  context.translate(0, -top);
  context.font = `600 12px ${getComputedStyle(canvas).fontFamily}`;
  context.textBaseline = "middle";
  for (const { x, y, width, band, cells: count } of made.headings) {
    if (y + 20 < top || y > top + height) continue;
    const isMarked = scene.bandName(band) === scene.marked;
    context.fillStyle = isMarked ? scene.focus : scene.soft;
    // One line for a name of any length, isolated so that its direction does not affect its surroundings.
    const [before, after] = [`${isMarked ? "\u25b8 " : ""}\u2068`, `\u2069 \u00b7 ${count}`];
    const name = fitting(context, scene.bandName(band), width - context.measureText(before + after).width);
    context.fillText(before + name + after, x, y + 11);
  }
  for (const { x: left, y, first, end } of made.lines) {
    if (y + made.pitch < top || y > top + height) continue;
    for (let cell = first; cell < end; cell++) {
      const [x, step] = [left + (cell - first) * made.pitch, stepAt(cells[cell])];
      const inset = insetOf(step, size, theme, texts);
      context.fillStyle = styles.get(step);
      context.fillRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset);
      if (scene.picked.has(cells[cell])) outline(context, scene.focus, x, y, size, 2);
    }
  }
  if (scene.active >= 0) {
    const [x, y] = placeOf(made, scene.active);
    outline(context, scene.paper, x, y, size, 3);
    outline(context, scene.ink, x - 1, y - 1, size + 2, 2);
  }
  if (scene.brush) {
    const [left, up, right, down] = scene.brush;
    context.strokeStyle = scene.focus;
    context.setLineDash([4, 3]);
    context.strokeRect(left, up, right - left, down - up);
  }
}

/** A square of a step for the legend. */
export function stepSwatch(step, texts, theme) {
  return filledSwatch((context) => stylesOf(context, theme, Boolean(texts)).get(step), insetOf(step, 16, theme, texts));
}

// Larger values are larger squares, too: adjacent colours are too similar for some kinds of colour vision.
function insetOf(step, size, theme, texts) {
  if (texts || step < 0) return 0;
  const least = theme === "forced" ? 1 / (STEPS + 1) : 0.5;
  return (size / 2) * (1 - least) * (1 - step / STEPS);
}

function stylesOf(context, theme, texts) {
  const colours = ladder(theme);
  const kinds = texts ? brushes(context, theme) : [];
  const styles = new Map(texts ? VERDICTS.map((kind, step) => [step, kinds[kind]]) : colours.map((colour, step) => [step, colour]));
  const paper = theme === "dark" ? "#15181d" : theme === "forced" ? "Canvas" : "#ffffff";
  return styles.set(-1, brush(context, PATTERNS.backslash, paper, theme === "forced" ? "GrayText" : "#8a5a3c"));
}

function outline(context, colour, x, y, size, width) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.strokeRect(x + width / 2, y + width / 2, size - width, size - width);
}

/** A name within a width: the middle of a long one is cut, since names often begin alike. */
export function fitting(context, name, room) {
  const letters = [...name];
  const shortened = (kept) => `${letters.slice(0, Math.ceil(kept / 2)).join("")}\u2026${letters.slice(letters.length - Math.floor(kept / 2)).join("")}`;
  let [text, kept] = [name, letters.length];
  for (let wide; kept > 1 && (wide = context.measureText(text).width) > room; text = shortened(kept)) {
    kept = Math.max(1, Math.min(kept - 1, Math.floor((kept * room) / wide)));
  }
  return text;
}
