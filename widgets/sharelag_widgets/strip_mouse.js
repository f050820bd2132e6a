// Mouse actions on a strip's picture: point at an offset, pick a range, move, zoom.

import { panned } from "./strip_math.js";
import { STUB } from "./strip_picture.js";

/**
 * Watch the mouse on a picture.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {{span: () => number[], limits: () => number[], tail: () => number, point: (offset: number) => void,
 *   brush: (first: number, last: number, done: boolean) => void, unbrush: () => void,
 *   move: (span: number[], done: boolean) => void, zoom: (factor: number, at: number) => void}} strip what is shown, and
 *   what to do: `done` when the button is released, `unbrush` if the system takes the pointer away before
 */
export function watchMouse(canvas, { span, limits, tail, point, brush, unbrush, move, zoom }) {
  let drag = null; // the first offset of a range, or the place in the log that is held
  const placeOf = (event) => {
    const [from, to] = span();
    return from + (event.offsetX / (canvas.clientWidth - (tail() > 0 ? STUB : 0))) * (to - from);
  };
  const offsetOf = (event) => {
    const [from, to] = span();
    return Math.floor(Math.max(from, Math.min(to - 1e-9, placeOf(event))));
  };
  const isMoving = ({ button, shiftKey }) => button === 1 || (button === 0 && shiftKey);
  // The dragged point stays under the mouse, even if the stub of the tail disappears and the picture gets wider.
  function moveTo(event) {
    const { held, wide, moved } = drag;
    const from = held - (event.offsetX / canvas.clientWidth) * wide;
    if (moved || Math.abs(event.offsetX - drag.x) > 2) drag = { ...drag, moved: panned([from, from + wide], 0, limits()) };
    if (drag.moved) move(drag.moved, false);
  }
  function end() {
    if (drag?.moved) move(drag.moved, true);
    drag = null;
    canvas.classList.remove("sl-moving");
  }
  canvas.addEventListener("mousedown", (event) => {
    if (event.button === 1) event.preventDefault(); // else it scrolls the page
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (drag || (event.button !== 0 && !isMoving(event))) return;
    const [[from, to], [low, high]] = [span(), limits()];
    if (!isMoving(event)) drag = { first: offsetOf(event) };
    else if (to - from < high - low) drag = { held: placeOf(event), wide: to - from, x: event.offsetX, moved: null };
    else return; // everything is visible
    canvas.classList.toggle("sl-moving", isMoving(event));
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag?.wide) moveTo(event);
    else if (!drag) point(offsetOf(event));
    else if (offsetOf(event) !== drag.first) brush(drag.first, offsetOf(event), false);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.wide) brush(drag.first, offsetOf(event), true);
    end();
  });
  canvas.addEventListener("pointercancel", () => {
    if (drag && !drag.wide) unbrush();
    end();
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // the page scrolls
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, offsetOf(event));
  }, { passive: false });
}
