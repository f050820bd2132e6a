// Rarely used content behind one button.

import { button, make } from "./dom.js";

/** Content below a button until it is pressed again, Escape is pressed, or the focus moves elsewhere. */
export function menu(words, ...items) {
  const box = make("div", { class: "sl-menu-items", hidden: true }, ...items);
  const opener = button("\u22ef", () => turn(box.hidden), { class: "sl-more", "aria-label": words, "aria-expanded": "false" });
  const element = make("div", { class: "sl-menu" }, opener, box);
  function turn(open) {
    box.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
    // To the left of its button, unless it would leave its container.
    const edge = element.closest(".sharelag-dashboard, body").getBoundingClientRect().left;
    box.classList.toggle("sl-start", opener.getBoundingClientRect().right - box.offsetWidth < edge);
  }
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || box.hidden) return;
    event.stopPropagation();
    turn(false);
    opener.focus();
  });
  element.addEventListener("focusout", ({ relatedTarget }) => element.contains(relatedTarget) || turn(false));
  return element;
}
