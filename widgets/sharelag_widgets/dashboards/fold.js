// A button that shows and hides the content below it.

import { button } from "../shared/dom.js";
import { kept } from "../shared/kept.js";

function build({ model, get }) {
  const toggle = button("", () => {
    model.set("display", get("display") === "none" ? "" : "none");
    model.save_changes();
  });
  const paint = () => {
    const isOpen = get("display") !== "none";
    toggle.setAttribute("aria-expanded", String(isOpen));
    toggle.textContent = `${isOpen ? "▾" : "▸"} ${get("label")}`;
  };
  return { elements: [toggle], paint };
}

export default kept("fold", ["label", "display"], build);
