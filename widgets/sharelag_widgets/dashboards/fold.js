// A button that shows and hides what stands below it.

import { button, make } from "../shared/dom.js";
import { kept } from "../shared/kept.js";

/** Build it, and keep it up to date; returns what ends it. */
function render({ model, el }) {
  const root = make("div", { class: "sl sl-fold" });
  const toggle = button("", () => {
    model.set("display", model.get("display") === "none" ? "" : "none");
    model.save_changes();
  });
  root.append(toggle);
  const paint = () => {
    const isOpen = model.get("display") !== "none";
    toggle.setAttribute("aria-expanded", String(isOpen));
    toggle.textContent = `${isOpen ? "▾" : "▸"} ${model.get("label")}`;
  };
  return kept({ model, el }, root, ["label", "display"], paint);
}

export default { render };
