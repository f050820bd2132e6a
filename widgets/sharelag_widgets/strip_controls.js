// Controls around a strip's picture: a field to go to an offset, and playback.

import { button, make, ownsKeys, takesKeys } from "./shared/dom.js";

/** Speeds, as multiples of one moment per `EACH` milliseconds. */
const SPEEDS = [1, 2, 5, 10];
const [EACH, TICK] = [120, 60];
let offsetFields = 0;

/**
 * A field for an offset; Enter goes there.
 *
 * @param {(text: string) => string} go why that is impossible, or nothing
 * @returns {{element: HTMLElement, focus: (event: KeyboardEvent) => void, clear: () => void, hush: () => void}} `focus`
 *   takes the event of the key, to return the focus; `clear` empties it, `hush` removes only its message
 */
export function offsetField(go) {
  const id = `sl-offset-why-${++offsetFields}`;
  const field = ownsKeys(make("input", { type: "text", inputmode: "numeric", size: 11, autocomplete: "off", "aria-describedby": id }));
  const why = make("span", { class: "sl-why", id, role: "status" });
  const tell = (text) => {
    why.textContent = text;
    field.setAttribute("aria-invalid", String(text !== ""));
  };
  const hush = () => why.textContent && tell("");
  const clear = () => {
    field.value = "";
    hush();
  };
  let from = null;
  const back = () => from?.focus();
  const keys = {
    Enter() {
      tell(go(field.value));
      if (!why.textContent) back();
    },
    Escape() {
      clear();
      back();
    },
  };
  field.addEventListener("input", hush);
  field.addEventListener("blur", () => (from = null));
  takesKeys(field, ({ key, ctrlKey, metaKey, shiftKey }) => (ctrlKey || metaKey || shiftKey ? null : keys[key]));
  tell("");
  const focus = ({ currentTarget }) => {
    from = currentTarget;
    field.focus();
  };
  return { element: make("div", { class: "sl-go" }, make("label", {}, "Go to offset", field), why), focus, clear, hush };
}

/**
 * Play, a slider, and the speed.
 *
 * @param {{get: (name: string) => any, last: () => number, go: (moment: number) => void,
 *   tell: (traits) => void, say: (text: string) => void}} acts
 */
export function timeBar({ get, last, go, tell, say }) {
  let [ticking, owed] = [0, 0];
  const speed = () => get("speed") || 1; // a page that was saved before there were speeds has none
  const play = button("\u25b6", () => run(!ticking), { "aria-label": "Play", class: "sl-play" });
  const slider = ownsKeys(make("input", { type: "range", min: 0, step: 1, "aria-label": "Moment", oninput: () => go(Number(slider.value)) }));
  const when = make("output", { class: "sl-when" });
  const speeds = SPEEDS.map((times) => button(`${times}\u00d7`, () => tell({ speed: times }), { data: { times } }));
  const faster = make("div", { class: "sl-speeds", role: "group", "aria-label": "Speed of playing" }, ...speeds);
  const element = make("div", { class: "sl-bar sl-time" }, play, slider, when, faster);

  function run(on) {
    clearInterval(ticking);
    [ticking, owed] = [on ? setInterval(tick, TICK) : 0, 0];
    if (on && get("moment") >= last()) go(0);
    play.textContent = ticking ? "\u23f8" : "\u25b6";
    play.setAttribute("aria-label", ticking ? "Pause" : "Play");
  }
  // Moments are skipped if the screen and linked views cannot keep up.
  function tick() {
    owed += (TICK / EACH) * speed();
    const moments = Math.floor(owed);
    if (!moments) return;
    owed -= moments;
    if (get("moment") < last()) go(get("moment") + moments);
    else run(false);
  }
  return {
    element,
    /** Play or pause. */
    toggle: () => run(!ticking),
    /** One speed up (1) or down (-1). */
    shift(by) {
      const times = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(speed()) + by))];
      tell({ speed: times });
      say(`Speed of playing: ${times} times`);
    },
    /** Show the moment, as `at` and in the reader's own time as `here`. */
    show(at, here) {
      const moments = last() + 1;
      when.textContent = `${at}${here ? ` (${here})` : ""}, ${get("moment") + 1} of ${moments}`;
      element.hidden = moments < 2;
      slider.max = last();
      slider.value = get("moment");
      slider.setAttribute("aria-valuetext", at);
      for (const made of speeds) made.setAttribute("aria-pressed", String(Number(made.dataset.times) === speed()));
    },
    stop: () => clearInterval(ticking),
  };
}
