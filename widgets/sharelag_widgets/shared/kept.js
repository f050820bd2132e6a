// The life of a small view: painted at once and whenever its traits change, in the page's theme, until the page removes it.

import { announcer, failureOf, make } from "./dom.js";
import { hearing } from "./hearing.js";
import { watchTheme } from "./theme.js";

/**
 * What a module of such a view gives to anywidget. A failure is shown in the view, and painting is tried again with the next change.
 *
 * @param {string} name the class of its root, after "sl-"
 * @param {string[]} traits whose changes repaint the view
 * @param {(view: {model, get, root, voice}) => {elements: Node[], paint: () => void, stop?: () => void}} build makes the elements
 *   once; `get` reads a trait, `voice` announces a text, `paint` shows the model
 * @param {string | null} label of the view, which then is a section
 */
export const kept = (name, traits, build, label = null) => ({
  render({ model, el }) {
    const root = make(label ? "section" : "div", { class: `sl sl-${name}`, "aria-label": label });
    const voice = announcer();
    const { elements, paint, stop } = build({ model, get: (trait) => model.get(trait), root, voice });
    root.append(...elements, voice.element);
    el.append(root);
    const trouble = failureOf(root);
    const again = () => {
      try {
        paint();
        trouble.mend();
        root.dataset.loaded = Number(root.dataset.loaded ?? 0) + 1;
      } catch (error) {
        trouble.tell(error);
      }
    };
    const events = traits.map((trait) => `change:${trait}`);
    for (const event of events) model.on(event, again);
    const stopTheme = watchTheme(root, () => {});
    again();
    hearing(model);
    return () => {
      for (const event of events) model.off(event, again);
      for (const end of [stopTheme, voice.stop, stop]) end?.();
      root.remove();
    };
  },
});
