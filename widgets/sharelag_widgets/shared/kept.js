// The life of a small view: painted at once and whenever its traits change, in the page's theme, until the page lets go of it.

import { failureOf } from "./dom.js";
import { hearing } from "./hearing.js";
import { watchTheme } from "./theme.js";

/**
 * Put a view into the page and keep it up to date. What fails is said in the view, and tried again with the next change.
 *
 * @param {{model, el}} context anywidget's
 * @param {HTMLElement} root the view
 * @param {string[]} traits on whose change to paint
 * @param {() => void} paint shows what the model says
 * @param {...(() => void)} ends what else to end with it
 * @returns {() => void} what ends it
 */
export function kept({ model, el }, root, traits, paint, ...ends) {
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
  const events = traits.map((name) => `change:${name}`);
  for (const event of events) model.on(event, again);
  const stopTheme = watchTheme(root, () => {});
  again();
  hearing(model);
  return () => {
    for (const event of events) model.off(event, again);
    for (const end of [stopTheme, ...ends]) end();
    root.remove();
  };
}
