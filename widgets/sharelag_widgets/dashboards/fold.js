// A button that shows and hides what stands below it.

import { button, failureOf, make } from "../shared/dom.js";
import { watchTheme } from "../shared/theme.js";

/** Build it, and keep it up to date; returns what ends it. */
function render({ model, el }) {
  const root = make("div", { class: "sl sl-fold" });
  const trouble = failureOf(root);
  const toggle = button("", () => {
    model.set("display", model.get("display") === "none" ? "" : "none");
    model.save_changes();
  });
  root.append(toggle);
  el.append(root);
  const paint = () => {
    try {
      const isOpen = model.get("display") !== "none";
      toggle.setAttribute("aria-expanded", String(isOpen));
      toggle.textContent = `${isOpen ? "▾" : "▸"} ${model.get("label")}`;
      trouble.mend();
      root.dataset.loaded = Number(root.dataset.loaded ?? 0) + 1;
    } catch (failure) {
      trouble.tell(failure);
    }
  };
  const stopTheme = watchTheme(root, () => {});
  const events = ["label", "display"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, paint);
  paint();
  return () => {
    for (const event of events) model.off(event, paint);
    stopTheme();
    root.remove();
  };
}

export default { render };
