// Copies a text to the clipboard, or shows it to be copied by hand.

import { make, ownsKeys } from "./dom.js";

/** Copy a text, and announce whether the browser did; otherwise show it below, to be copied by hand. `root.dataset.copied` is its length. */
export async function copied(root, text, words, below) {
  root.dataset.copied = text.length;
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // No access to the clipboard, as in a page from disk: let people copy it themselves.
    const field = ownsKeys(make("textarea", { rows: 5, "aria-label": `${words}: copy it from here`, style: { width: "100%" } }));
    field.value = text;
    below.replaceChildren(make("span", { class: "sl-soft" }, "The browser does not allow copying here. Copy it yourself: "), field);
    field.select();
    return false;
  }
}
