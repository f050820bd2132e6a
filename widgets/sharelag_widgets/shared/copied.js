// A text to the clipboard, or below for who takes it by hand.

import { make, ownsKeys } from "./dom.js";

/** Copy a text, and say whether the browser did; else it stands below, to be taken by hand. `root.dataset.copied` is its length. */
export async function copied(root, text, words, below) {
  root.dataset.copied = text.length;
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // No leave to use the clipboard, as in a page from disk: let people take it themselves.
    const field = ownsKeys(make("textarea", { rows: 5, "aria-label": `${words}: copy it from here`, style: { width: "100%" } }));
    field.value = text;
    below.replaceChildren(make("span", { class: "sl-soft" }, "The browser does not allow copying here. Copy it yourself: "), field);
    field.select();
    return false;
  }
}
